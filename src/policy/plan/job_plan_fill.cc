// How a JobPlan is filled: the best device for a job's next worker, and idle devices on few nodes.
#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "policy/plan/job_plan.h"

namespace sluice::policy {
namespace {

bool has_instance_of(const Site& site, const FunctionName& job) {
  return std::ranges::any_of(site.taken, [&](const Taken& t) { return t.by->function == job; });
}

// Speeds that differ by less count as equal, so that noise moves no worker.
int steps(double speed) {
  return static_cast<int>(std::floor(speed * 20 + 1e-9));
}

}  // namespace

bool JobPlan::may_share(size_t job, uint32_t device) const {
  const int priority = (*jobs_)[job].view->spec.priority;
  return std::ranges::all_of(seats_[device], [&](const Seat& s) {
    return (*jobs_)[s.job].view->spec.priority <= priority;
  });
}

// Returns where in the window a worker of the job can be on that device; nothing: it cannot.
// Beside the workers that are to leave if there is space, else in their place.
std::optional<Share> JobPlan::place(size_t job, uint32_t device) const {
  const Site& site = (*sites_)[device];
  const FunctionView& view = *(*jobs_)[job].view;
  if (site.taken.empty() && seats_[device].empty()) {
    const bool fits = view.spec.memory <= site.device->memory && rules(job).floor <= kWhole;
    return fits ? std::optional(kWhole - rules(job).floor) : std::nullopt;
  }
  const Taken* present = worker_on(site, job);
  if (present == nullptr && has_instance_of(site, view.spec.name))
    return std::nullopt;  // it leaves
  std::vector<Taken> beside = site.taken, instead;
  Bytes memory = site.device->memory - view.spec.memory;
  for (const Taken& t : site.taken) {
    if (t.job) continue;
    instead.push_back(t);
    memory -= t.by->slice().memory;
  }
  for (const Seat& s : seats_[device]) {
    memory -= (*jobs_)[s.job].view->spec.memory;
    const Share length = s.instance ? s.instance->slice().quota.request : rules(s.job).floor;
    instead.push_back({s.begin, length, s.instance});
    if (s.instance == nullptr) beside.push_back(instead.back());
  }
  if (memory < 0) return std::nullopt;
  if (present != nullptr) {
    const bool free = std::ranges::none_of(instead, [&](const Taken& t) {
      return intersect(present->begin, present->length, t.begin, t.length);
    });
    return free ? std::optional(present->begin) : std::nullopt;
  }
  const auto found = latest_begin(std::move(beside), rules(job).floor);
  return found ? found : latest_begin(std::move(instead), rules(job).floor);
}

std::optional<JobPlan::Choice> JobPlan::best_device(size_t job, bool share) const {
  std::vector<bool> near(sites_->size());  // nodes
  for (const uint32_t d : devices_[job]) near[(*sites_)[d].node] = true;
  // Shared or not, the speed, workers of others that would have to leave, on loan, another node,
  // the device.
  using Rank = std::tuple<bool, int, size_t, bool, bool, uint32_t>;
  std::optional<Rank> best;
  std::optional<Choice> choice;
  for (uint32_t d = 0; d < sites_->size(); ++d) {
    const Site& site = (*sites_)[d];
    const size_t sharing = seats_[d].size() + static_cast<size_t>(site.others);
    if (!site.closed.empty() || (sharing > 0 && (!share || !may_share(job, d)))) continue;
    const double speed = site.idle / static_cast<double>(sharing + 1);
    if (speed < rules(job).least_speed) continue;
    const bool here = worker_on(site, job) != nullptr;
    const auto workers = static_cast<size_t>(
        std::ranges::count_if(site.taken, [&](const Taken& t) { return t.job.has_value(); }));
    const bool away = count(job) > 0 && !near[site.node];
    const Rank rank{sharing > 0,
                    -steps(here ? speed * (1 + rules(job).better_by) : speed),
                    here ? 0 : workers,
                    site.lent,
                    away,
                    d};
    if ((best && *best <= rank) || seat(job, d) != nullptr) continue;
    const std::optional<Share> begin = place(job, d);
    if (!begin) continue;
    best = rank;
    choice = {d, *begin};
  }
  return choice;
}

bool JobPlan::give_least(size_t job, bool share) {
  const int least = (*jobs_)[job].least();
  std::vector<uint32_t> added;
  while (static_cast<int>(count(job)) < least) {
    const auto choice = best_device(job, share);
    if (!choice) {
      for (const uint32_t d : added) remove(job, d);
      return false;
    }
    sit(job, *choice);
    added.push_back(choice->device);
  }
  return true;
}

// Returns the idle devices that could have a worker of the job, by node; the fastest first, and of
// equal ones those where it runs.
std::map<size_t, std::vector<JobPlan::Choice>> JobPlan::idle_for(size_t job) const {
  std::map<size_t, std::vector<Choice>> idle;
  for (uint32_t d = 0; d < sites_->size(); ++d) {
    const Site& site = (*sites_)[d];
    if (!site.closed.empty() || !seats_[d].empty() || site.others > 0) continue;
    if (site.idle < rules(job).least_speed) continue;
    if (const auto begin = place(job, d)) idle[site.node].push_back({d, *begin});
  }
  const auto rank = [&](const Choice& c) {
    const Site& site = (*sites_)[c.device];
    const bool here = worker_on(site, job) != nullptr;
    return std::pair(-steps(here ? site.idle * (1 + rules(job).better_by) : site.idle), !here);
  };
  for (auto& [node, devices] : idle) std::ranges::stable_sort(devices, {}, rank);
  return idle;
}

std::vector<uint32_t> JobPlan::idle_devices(size_t job) const {
  std::vector<uint32_t> idle;
  for (const auto& [node, devices] : idle_for(job))
    for (const Choice& c : devices) idle.push_back(c.device);
  std::ranges::sort(idle);
  return idle;
}

bool JobPlan::give_most(size_t job, int workers, int of_a_node) {
  const auto idle = idle_for(job);
  int all = 0, on_one = 0;
  for (const auto& [node, devices] : idle) {
    all += static_cast<int>(devices.size());
    on_one = std::max(on_one, static_cast<int>(devices.size()));
  }
  const int least = (*jobs_)[job].least();
  for (const int k : {workers > of_a_node && all > of_a_node ? std::min(workers, all) : 0,
                      std::min({workers, of_a_node, on_one}), std::min(workers, all)})
    if (k >= least) return give(job, k, idle);
  return false;
}

bool JobPlan::give(size_t job, int workers) {
  return give(job, workers, idle_for(job));
}

bool JobPlan::give(size_t job, int workers, std::map<size_t, std::vector<Choice>> idle) {
  size_t all = 0;
  for (const auto& [node, devices] : idle) all += devices.size();
  if (all < static_cast<size_t>(workers)) return false;
  for (auto left = static_cast<size_t>(workers); left > 0;) {
    const auto rank = [&](const auto& node) {
      const auto& devices = node.second;
      const bool fits = devices.size() >= left;
      const auto runs = std::ranges::count_if(
          devices, [&](const Choice& c) { return worker_on((*sites_)[c.device], job) != nullptr; });
      const bool lent = (*sites_)[devices.front().device].lent;
      const Choice& last = devices[std::min(left, devices.size()) - 1];  // the slowest of them
      return std::tuple(!fits, -steps((*sites_)[last.device].idle),
                        fits ? size_t{0} : all - devices.size(), lent, -runs, devices.size());
    };
    const auto best = std::ranges::min_element(idle, {}, rank);
    const size_t taken = std::min(left, best->second.size());
    for (size_t i = 0; i < taken; ++i) sit(job, best->second[i]);
    idle.erase(best);
    left -= taken;
  }
  return true;
}

}  // namespace sluice::policy
