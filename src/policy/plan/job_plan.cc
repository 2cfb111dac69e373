#include "policy/plan/job_plan.h"

#include <algorithm>

namespace sluice::policy {

const Taken* worker_on(const Site& site, size_t job) {
  const auto found = std::ranges::find(site.taken, std::optional(job), &Taken::job);
  return found != site.taken.end() ? &*found : nullptr;
}

JobPlan::JobPlan(const std::vector<Job>& jobs, const std::vector<Site>& sites,
                 const std::vector<JobRules>& rules)
    : jobs_(&jobs),
      sites_(&sites),
      rules_(&rules),
      devices_(jobs.size()),
      seats_(sites.size()),
      relative_(jobs.size()) {}

const Seat* JobPlan::seat(size_t job, uint32_t device) const {
  const auto found = std::ranges::find(seats_[device], job, &Seat::job);
  return found != seats_[device].end() ? &*found : nullptr;
}

Workers JobPlan::workers(size_t job, std::optional<uint32_t> without) const {
  std::vector<bool> nodes(sites_->size());
  Workers workers{.count = 0, .nodes = 0};
  for (const uint32_t d : devices_[job]) {
    if (d == without) continue;
    const Site& site = (*sites_)[d];
    const double shared_by = static_cast<double>(seats_[d].size()) + site.others;
    const double most = rules(job).ceiling.fraction();
    workers.speed = std::min({workers.speed, site.idle / shared_by, most});
    workers.nodes += !nodes[site.node];
    nodes[site.node] = true;
    ++workers.count;
  }
  workers.speed = std::max(workers.speed, 0.001);  // each has its floor
  return workers;
}

void JobPlan::update_job(size_t job) {
  const Job& j = (*jobs_)[job];
  relative_[job] = 0;
  if (count(job) == 0 || static_cast<int>(count(job)) < j.least()) return;
  relative_[job] = goodput(j, workers(job)) / rules(job).alone;
}

void JobPlan::update(uint32_t device) {
  for (const Seat& s : seats_[device]) update_job(s.job);
}

double JobPlan::lost_without(uint32_t device) const {
  double lost = 0;
  for (const Seat& s : seats_[device]) {
    const Job& job = (*jobs_)[s.job];
    const Workers rest = workers(s.job, device);
    lost += relative(s.job);
    if (rest.count >= job.least()) lost -= goodput(job, rest) / rules(s.job).alone;
  }
  return lost;
}

void JobPlan::keep(size_t job, const Worker& worker) {
  seats_[worker.device].push_back({job, worker.instance, worker.instance->position().time_begin});
  std::vector<uint32_t>& devices = devices_[job];
  devices.insert(std::ranges::lower_bound(devices, worker.device), worker.device);
  update(worker.device);
}

void JobPlan::sit(size_t job, const Choice& choice) {
  const Taken* present = worker_on((*sites_)[choice.device], job);
  seats_[choice.device].push_back({job, present != nullptr ? present->by : nullptr, choice.begin});
  std::vector<uint32_t>& devices = devices_[job];
  devices.insert(std::ranges::lower_bound(devices, choice.device), choice.device);
  update(choice.device);
}

void JobPlan::remove(size_t job, uint32_t device) {
  std::erase_if(seats_[device], [&](const Seat& s) { return s.job == job; });
  std::erase(devices_[job], device);
  update(device);
  update_job(job);
}

void JobPlan::remove_all(size_t job) {
  while (count(job) > 0) remove(job, devices_[job].back());
}

}  // namespace sluice::policy
