#include "sim/job_outcome.h"

#include <algorithm>

namespace sluice::sim {

JobOutcome outcome_of(const ScenarioJob& plan, const JobRecord& record, Time start, Time end) {
  JobOutcome o{.job = plan.spec.name, .arrived = plan.arrives};
  if (record.began) o.began = *record.began - start;
  if (record.finished) o.finished = *record.finished - start;
  o.samples = record.samples;
  o.goodput_samples = record.learned;
  const Nanos held = record.finished.value_or(end) - record.first_start.value_or(end);
  o.workers_mean = held > Nanos(0) ? record.worker_seconds / seconds(held) : 0;
  o.workers_max = record.most_workers;
  o.reforms = std::max<int64_t>(record.generations - 1, 0);
  return o;
}

double goodput_of(const JobOutcome& job, Nanos end) {
  const Nanos lasted = job.began ? job.finished.value_or(end) - *job.began : Nanos(0);
  return lasted > Nanos(0) ? job.goodput_samples / seconds(lasted) : 0;
}

JobsOutcome summary_of(const std::vector<JobOutcome>& jobs, Nanos end) {
  JobsOutcome all{.arrived = jobs.size()};
  if (jobs.empty()) return all;
  std::vector<Nanos> times;
  Nanos completion{0}, queueing{0}, first = Nanos::max(), last{0};
  for (const JobOutcome& job : jobs) {
    queueing += job.began.value_or(end) - job.arrived;
    all.goodput += goodput_of(job, end);
    all.workers_mean += job.workers_mean;
    all.reforms += job.reforms;
    first = std::min(first, job.arrived);
    last = std::max(last, job.finished.value_or(end));
    if (!job.finished) continue;
    times.push_back(job.completion_time());
    completion += times.back();
  }
  const auto count = static_cast<int64_t>(jobs.size());
  all.queueing_mean = queueing / count;
  all.goodput /= static_cast<double>(count);
  all.workers_mean /= static_cast<double>(count);
  all.makespan = last - first;
  all.finished = times.size();
  if (times.empty()) return all;
  std::ranges::sort(times);
  all.completion_mean = completion / static_cast<int64_t>(times.size());
  all.completion_p95 = times[(times.size() * 95 + 99) / 100 - 1];
  return all;
}

}  // namespace sluice::sim
