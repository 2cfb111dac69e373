#include "policy/plan/jobs.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "policy/loans.h"
#include "policy/place/layout.h"
#include "policy/plan/job_reasons.h"

namespace sluice::policy {
namespace {

void add_workers(const Input& input, uint32_t function, Job& job) {
  for (const uint32_t k : input.index.of_function(function)) {
    const Instance& i = input.snapshot.instances[k];
    const auto device = input.index.device_of(k);
    if (!device || i.state == InstanceState::kGone || i.state == InstanceState::kDraining) continue;
    (i.revision == job.view->revision ? job.workers : job.retired).push_back({&i, *device});
  }
}

// Returns the bounds of the job's batch. A bound that neither the file nor the trainer states is
// taken to be the present batch.
BatchRange range_of(const Job& job) {
  BatchRange range = job.spec().batch;
  if (range.least == 0) range.least = std::max(1, job.state().batch);
  if (range.most == 0) range.most = std::max(range.least, job.state().batch);
  return range;
}

// Returns the share of the device that an instance uses.
double use_of(const Snapshot& snapshot, const Instance& i) {
  const InstanceMeasurements* measured = measurements_of(snapshot, i.id);
  const Share time = measured != nullptr ? measured->busy : i.slice().quota.request;
  return i.slice().sm.fraction() * time.fraction();
}

Reason why_unwanted(const Job& job) {
  const std::string& trouble = job.state().trouble;
  const std::string why = trouble.empty() ? "." : ": " + trouble + ".";
  switch (job.state().phase) {
    case JobPhase::kFinished:
      return {"job-finished", "Every epoch is trained.", {}};
    case JobPhase::kFailed:
      return {"job-failed", "The job failed" + why, {}};
    default:
      return {"job-paused", "The job is paused" + why, {}};
  }
}

}  // namespace

const JobView& Job::state() const {
  static const JobView kNothingKnown;
  return view->job ? *view->job : kNothingKnown;
}

bool Job::wants_workers() const {
  return !spec().paused && sluice::wants_workers(state());
}

int Job::least() const {
  return std::max(1, spec().min_workers);
}

int Job::most() const {
  if (spec().max_workers <= 0) return std::numeric_limits<int>::max();
  return std::max(spec().max_workers, least());
}

std::vector<Job> jobs_of(const Input& input) {
  std::vector<Job> jobs;
  for (size_t m = 0; m < input.mine.size(); ++m) {
    const auto f = input.index.function(input.mine[m]);
    if (!f || input.snapshot.functions[*f].spec.is_inference()) continue;
    Job job{&input.snapshot.functions[*f], &input.settings[m], {}, {}};
    add_workers(input, *f, job);
    jobs.push_back(std::move(job));
  }
  const auto rank = [](const Job& j) {
    return std::tuple(-j.view->spec.priority, j.state().submitted, j.name());
  };
  std::ranges::sort(jobs, {}, rank);
  return jobs;
}

BatchChoice batch_of(const Job& job, const Workers& workers) {
  const JobView& state = job.state();
  const double linear = workers.count * workers.speed;
  if (!state.step) return {.batch = state.batch, .throughput = linear, .goodput = linear};
  const auto [at, is_new] =
      job.batches.try_emplace({workers.count, workers.nodes > 1, workers.speed});
  if (is_new) at->second = best_batch(*state.step, workers, state.noise, range_of(job));
  return at->second;
}

double goodput(const Job& job, const Workers& workers) {
  return batch_of(job, workers).goodput;
}

double throughput_of(const Job& job, const Workers& workers) {
  return batch_of(job, workers).throughput;
}

double goodput_alone(const Job& job) {
  if (const double one = goodput(job, {}); one > 0) return one;
  const double least = goodput(job, {.count = job.least()}) / job.least();
  return least > 0 ? least : 1;
}

std::vector<Site> sites_of(const Input& input, const std::vector<Job>& jobs) {
  const Snapshot& s = input.snapshot;
  std::vector<Site> sites;
  std::map<std::string_view, size_t> nodes;
  std::set<std::string_view> inferences;
  for (const Node& n : s.nodes)
    if (const auto home = n.labels.find(std::string(kVirtualCluster));
        home != n.labels.end() && home->second == kForInference)
      inferences.insert(n.name);
  for (uint32_t d = 0; d < s.devices.size(); ++d) {
    Site site{.device = &s.devices[d]};
    site.node = nodes.try_emplace(site.device->node, nodes.size()).first->second;
    site.lent = inferences.contains(site.device->node);
    if (site.device->drained) site.closed = "cordoned";
    if (!site.device->reachable) site.closed = "unreachable";
    std::string_view runs;  // for the instances there
    for (const uint32_t k : input.index.on_device(d)) {
      const Instance& i = s.instances[k];
      if (i.state == InstanceState::kGone) continue;
      site.taken.push_back({i.position().time_begin, i.slice().quota.request, &i});
      if (runs.empty()) runs = i.arbiter;
      const auto f = input.index.function_of(k);
      if (!f || s.functions[*f].spec.is_inference()) {
        site.idle -= use_of(s, i);
        site.used = true;
        continue;
      }
      const bool mine = std::ranges::binary_search(input.mine, i.function);
      site.others += !mine && i.state != InstanceState::kDraining;
    }
    site.idle = std::max(0.0, site.idle);
    site.arbiter = arbiter_for(*site.device, runs, input.arbiter);
    if (!runs.empty() && runs != site.arbiter && site.device->arbiter.empty() &&
        !input.arbiter.empty())
      site.closed = "of another arbiter";
    sites.push_back(std::move(site));
  }
  for (size_t j = 0; j < jobs.size(); ++j)
    for (const Worker& w : jobs[j].workers)
      std::ranges::find(sites[w.device].taken, w.instance, &Taken::by)->job = j;
  return sites;
}

std::optional<Share> latest_begin(std::vector<Taken> taken, Share length) {
  std::ranges::sort(taken, [](const Taken& a, const Taken& b) {
    return a.begin + a.length > b.begin + b.length;  // the one that ends last first
  });
  Share end = kWhole;
  for (const Taken& t : taken) {
    if (t.length == kNone) continue;
    if (t.begin + t.length + length <= end) break;
    end = std::min(end, t.begin);
  }
  return length <= end ? std::optional(end - length) : std::nullopt;
}

Action start_worker(const Job& job, const Site& site, Share begin, Quota quota, Reason reason) {
  const Part part{site.device->id, {kWhole, quota, job.view->spec.memory}, {kNone, begin}};
  const StartInstance start{job.name(), job.view->revision, {part}, 1, std::string(site.arbiter)};
  return {job.name(), start, std::move(reason)};
}

Action stop_worker(const Job& job, const Worker& worker, Reason reason) {
  return {job.name(), StopInstance{worker.instance->id}, std::move(reason)};
}

void stop_unwanted(const std::vector<Job>& jobs, const Snapshot& snapshot,
                   std::vector<Action>& actions) {
  const auto stop = [&](const Job& job, const Worker& w, Reason reason) {
    if (snapshot.devices[w.device].reachable)
      actions.push_back(stop_worker(job, w, std::move(reason)));
  };
  for (const Job& job : jobs) {
    for (const Worker& w : job.retired)
      stop(job, w,
           {"retired",
            "Revision " + std::to_string(w.instance->revision) + " is not the newest any more.",
            {{"revision", w.instance->revision}}});
    if (job.wants_workers()) continue;
    for (const Worker& w : job.workers) stop(job, w, why_unwanted(job));
  }
}

int stop_on_cordoned(const Job& job, const std::vector<Site>& sites, std::vector<Action>& actions) {
  int staying = 0;
  for (const Worker& w : job.workers) {
    const Device& device = *sites[w.device].device;
    if (device.drained && device.reachable)
      actions.push_back(stop_worker(job, w, worker_on_cordoned(device)));
    else
      ++staying;
  }
  return staying;
}

}  // namespace sluice::policy
