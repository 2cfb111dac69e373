#include "policy/plan/plan_fixed.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "policy/explain.h"
#include "policy/plan/job_reasons.h"
#include "policy/plan/jobs.h"

namespace sluice::policy {
namespace {

// Unknown or not, then seconds or epochs.
using Length = std::pair<bool, double>;

Length length_of(const Job& job) {
  const Workers all{.count = job.asked_for()};
  const double throughput = job.state().step ? throughput_of(job, all) : 0;
  if (throughput <= 0 || job.state().samples <= 0) return {true, job.spec().epochs};
  return {false, static_cast<double>(job.state().samples) / throughput};
}

// Returns the idle devices with the job's memory, by id.
std::vector<uint32_t> idle_devices(const Job& job, const std::vector<Site>& sites) {
  std::vector<uint32_t> idle;
  for (uint32_t d = 0; d < sites.size(); ++d)
    if (sites[d].closed.empty() && sites[d].taken.empty() &&
        sites[d].device->memory >= job.view->spec.memory)
      idle.push_back(d);
  return idle;
}

Reason why_waiting(const Job& job, int missing, size_t idle) {
  return {"job-waits",
          "The job needs " + counted(job.asked_for(), "whole device") + ", " +
              std::to_string(missing) + " of them still; " + std::to_string(idle) +
              (idle == 1 ? " is idle." : " are idle."),
          nonzero({{"missing", missing}, {"idle", static_cast<double>(idle)}})};
}

Reason why_behind(const Job& first) {
  return {"job-behind",
          "Job " + served_name(first.name()) + " comes first, and waits for devices.",
          {}};
}

void start(const Job& job, int missing, std::vector<Site>& sites, std::vector<Action>& actions) {
  static const Instance kStarting;
  const std::vector<uint32_t> idle = idle_devices(job, sites);
  for (int n = 0; n < missing; ++n) {
    Site& site = sites[idle[n]];
    actions.push_back(
        start_worker(job, site, kNone, {kWhole, kWhole},
                     {"job-starts",
                      "It is the job's turn: " + counted(job.asked_for(), "whole device") +
                          ". Started on " + site.device->id + ".",
                      {{"workers", job.asked_for()}}}));
    site.taken.push_back({kNone, kWhole, &kStarting});
  }
}

// `jobs` in the order in which they are served.
std::vector<Action> plan_fixed(const Input& input, const std::vector<Job>& jobs) {
  std::vector<Site> sites = sites_of(input, jobs);
  std::vector<Action> actions;
  stop_unwanted(jobs, input.snapshot, actions);
  std::vector<std::pair<const Job*, int>> served;  // with the workers that it lacks
  for (const Job& job : jobs)
    if (job.wants_workers())
      served.emplace_back(&job, job.asked_for() - stop_on_cordoned(job, sites, actions));
  const auto begun = [](const auto& s) { return s.first->workers.empty(); };
  std::ranges::stable_sort(served, {}, begun);  // those that run come first
  const Job* first = nullptr;
  for (const auto& [job, missing] : served) {
    if (missing <= 0) continue;
    const size_t idle = idle_devices(*job, sites).size();
    if (first != nullptr) {
      actions.push_back({job->name(), Unmet{}, why_behind(*first)});
    } else if (static_cast<int>(idle) < missing) {
      actions.push_back({job->name(), Unmet{}, why_waiting(*job, missing, idle)});
      first = job;
    } else {
      start(*job, missing, sites, actions);
    }
  }
  return actions;
}

}  // namespace

std::vector<Action> plan_fifo(Input& input) {
  std::vector<Job> jobs = jobs_of(input);
  std::ranges::sort(jobs, {},
                    [](const Job& j) { return std::tuple(j.state().submitted, j.name()); });
  return plan_fixed(input, jobs);
}

std::vector<Action> plan_sjf(Input& input) {
  const std::vector<Job> jobs = jobs_of(input);
  std::vector<std::pair<Length, const Job*>> by_length;  // a length takes a search to compute
  for (const Job& job : jobs) by_length.emplace_back(length_of(job), &job);
  std::ranges::sort(by_length, {}, [](const auto& entry) {
    const auto& [length, job] = entry;
    return std::tuple(length, job->state().submitted, job->name());
  });
  std::vector<Job> ordered;
  for (const auto& [length, job] : by_length) ordered.push_back(*job);
  return plan_fixed(input, ordered);
}

}  // namespace sluice::policy
