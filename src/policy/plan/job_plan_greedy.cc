// How a JobPlan is filled: the best device for a job's next worker, and the job that gains most.
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
  // Shared or not, the speed, workers of others that would have to leave, another node, the device.
  using Rank = std::tuple<bool, int, size_t, bool, uint32_t>;
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
    const Rank rank{sharing > 0, -steps(here ? speed * (1 + rules(job).better_by) : speed),
                    here ? 0 : workers, away, d};
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

// REQUIRES: count(job) > 0.
JobPlan::Offer JobPlan::offer(size_t job) const {
  const Job& j = (*jobs_)[job];
  Offer offer{true, std::nullopt, 0};
  if (static_cast<int>(count(job)) >= j.most()) return offer;
  offer.choice = best_device(job, /*share=*/false);
  if (!offer.choice) return offer;
  const Site& site = (*sites_)[offer.choice->device];
  Workers more = workers(job);
  const bool away = std::ranges::none_of(
      devices_[job], [&](uint32_t d) { return (*sites_)[d].node == site.node; });
  more.count += 1;
  more.nodes += away;
  more.speed = std::min(more.speed, site.idle);
  offer.gain = std::llround((goodput(j, more) / rules(job).alone - relative(job)) * 1e6);
  return offer;
}

bool JobPlan::enough(size_t job, const Offer& offer) const {
  return offer.choice && static_cast<double>(offer.gain) >= rules(job).least_gain * 1e6 &&
         offer.gain > 0;
}

void JobPlan::grow(std::span<const size_t> jobs) {
  std::vector<Offer> offers(jobs_->size());
  while (true) {
    std::optional<std::tuple<int64_t, size_t, size_t>> best;  // −gain, workers, job
    for (const size_t j : jobs) {
      if (count(j) == 0) continue;
      if (!offers[j].known) offers[j] = offer(j);
      if (!enough(j, offers[j])) continue;
      const std::tuple rank(-offers[j].gain, count(j), j);
      if (!best || rank < *best) best = rank;
    }
    if (!best) return;
    const size_t winner = std::get<2>(*best);
    const Choice taken = *offers[winner].choice;
    sit(winner, taken);
    for (const size_t j : jobs)  // a job that wanted the same device asks for another
      if (j == winner || (offers[j].choice && offers[j].choice->device == taken.device))
        offers[j].known = false;
  }
}

}  // namespace sluice::policy
