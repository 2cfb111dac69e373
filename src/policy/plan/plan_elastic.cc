#include "policy/plan/plan_elastic.h"

#include <algorithm>
#include <map>
#include <utility>

#include "policy/plan/job_actions.h"
#include "policy/plan/job_memory.h"
#include "policy/plan/job_plan.h"
#include "policy/plan/job_reasons.h"

namespace sluice::policy {
namespace {

class Elastic {
 public:
  explicit Elastic(Input& input)
      : input_(input),
        jobs_(jobs_of(input)),
        sites_(sites_of(input, jobs_)),
        rules_(rules()),
        memory_(input, jobs_.empty() ? Nanos(0) : settings(0).calm) {
    for (size_t j = 0; j < jobs_.size(); ++j)
      if (jobs_[j].wants_workers()) wanting_.push_back(j);
  }

  std::vector<Action> decide() {
    JobPlan kept = survivors();
    leave_slow(kept);
    std::vector<size_t> waiting;
    for (const size_t j : wanting_)
      if (static_cast<int>(kept.count(j)) < jobs_[j].least() && !kept.give_least(j, false))
        waiting.push_back(j);
    for (const size_t j : waiting) kept.remove_all(j);
    const JobPlan chosen = choose(kept, waiting);
    for (const size_t j : wanting_)
      if (chosen.devices(j) != kept.devices(j) || (jobs_[j].workers.empty() && chosen.count(j) > 0))
        memory_.note_change(jobs_[j].name());
    return job_actions(input_, jobs_, sites_, rules_, chosen, leaves_);
  }

 private:
  const ElasticSettings& settings(size_t job) const {
    return jobs_[job].settings->as<ElasticSettings>();
  }
  std::vector<JobRules> rules() const {
    std::vector<JobRules> all;
    for (size_t j = 0; j < jobs_.size(); ++j)
      all.push_back({.floor = settings(j).floor,
                     .ceiling = std::max(settings(j).floor, settings(j).ceiling),
                     .least_speed = settings(j).least_speed.fraction(),
                     .least_gain = settings(j).least_gain.fraction(),
                     .better_by = settings(j).better_by.fraction(),
                     .alone = goodput_alone(jobs_[j])});
    return all;
  }
  bool calm(size_t job) const {
    return memory_.changed_within(jobs_[job].name(), settings(job).calm);
  }

  JobPlan survivors();
  void leave_slow(JobPlan& kept);
  std::vector<uint32_t> reclaimed(const JobPlan& all) const;
  void deal(JobPlan& plan, bool pinned, const JobPlan& kept);
  JobPlan choose(const JobPlan& kept, const std::vector<size_t>& waiting);
  bool better(const JobPlan& a, const JobPlan& than) const;
  bool serves_more(const JobPlan& a, const JobPlan& than) const;

  Input& input_;
  const std::vector<Job> jobs_;
  std::vector<Site> sites_;
  const std::vector<JobRules> rules_;
  JobMemory memory_;
  std::vector<size_t> wanting_;          // jobs
  std::map<InstanceId, Reason> leaves_;  // workers that cannot stay
};

// Returns the devices that inference needs free of workers. One where only workers are may be
// changed for another of its kind whose workers are missed less.
std::vector<uint32_t> Elastic::reclaimed(const JobPlan& all) const {
  std::vector<uint32_t> free;
  const auto only_workers = [&](uint32_t d) { return !sites_[d].used && !sites_[d].taken.empty(); };
  std::vector<std::pair<double, uint32_t>> by_loss;
  std::vector<const Device*> exchanged;
  for (const DeviceId& id : input_.reclaimed) {
    const auto d = input_.index.device(id);
    if (d && only_workers(*d)) exchanged.push_back(sites_[*d].device);
    if (d && !only_workers(*d)) free.push_back(*d);
  }
  if (exchanged.empty()) return free;
  for (uint32_t d = 0; d < sites_.size(); ++d)
    if (only_workers(d) && sites_[d].device->reachable && !sites_[d].device->drained)
      by_loss.emplace_back(all.lost_without(d), d);
  std::ranges::sort(by_loss);
  for (const Device* wanted : exchanged) {
    const auto found = std::ranges::find_if(by_loss, [&](const auto& entry) {
      const Device& d = *sites_[entry.second].device;
      return alike(d, *wanted) && d.memory >= wanted->memory && d.sm_quantum == wanted->sm_quantum;
    });
    if (found == by_loss.end()) continue;
    free.push_back(found->second);
    by_loss.erase(found);
  }
  return free;
}

// Returns the plan of the workers that can stay.
JobPlan Elastic::survivors() {
  JobPlan all(jobs_, sites_, rules_);
  for (const size_t j : wanting_)
    for (const Worker& w : jobs_[j].workers)
      if (all.seat(j, w.device) == nullptr) all.keep(j, w);
  const std::vector<uint32_t> needed = reclaimed(all);
  for (const uint32_t d : needed) memory_.note_need(sites_[d].device->id);
  for (const DeviceId& id : memory_.needed())  // for a while, as inference may decide less often
    if (const auto d = input_.index.device(id)) sites_[*d].closed = "needed by inference";
  JobPlan kept = all;
  for (const size_t j : wanting_) {
    for (const Worker& w : jobs_[j].workers) {
      const Seat* seat = all.seat(j, w.device);
      const Device& device = *sites_[w.device].device;
      const bool second = seat->instance != w.instance;
      const bool needs = std::ranges::find(needed, w.device) != needed.end();
      if (!device.reachable || (!second && !needs && !device.drained)) continue;
      leaves_[w.instance->id] = second           ? second_worker(device)
                                : device.drained ? worker_on_cordoned(device)
                                                 : job_yields(device, all.lost_without(w.device));
      if (needs) memory_.note_change(jobs_[j].name());
      if (!second) kept.remove(j, w.device);
    }
  }
  return kept;
}

void Elastic::leave_slow(JobPlan& kept) {
  for (const size_t j : wanting_) {
    for (const Worker& w : jobs_[j].workers) {
      const Seat* seat = kept.seat(j, w.device);
      const Site& site = sites_[w.device];
      if (seat == nullptr || seat->instance != w.instance || !site.device->reachable) continue;
      const double speed =
          site.idle / static_cast<double>(kept.seats(w.device).size() + site.others);
      const bool slow = speed < rules_[j].least_speed;
      if (memory_.slow_for(w.instance->id, slow) < settings(j).calm || !slow) continue;
      if (static_cast<int>(kept.count(j)) <= jobs_[j].least()) continue;
      leaves_[w.instance->id] = slow_worker(*site.device, speed, settings(j).calm);
      kept.remove(j, w.device);
    }
  }
}

// Deals all devices, as from the beginning. `pinned`: jobs that changed of late keep what they
// have.
void Elastic::deal(JobPlan& plan, bool pinned, const JobPlan& kept) {
  std::vector<size_t> open;
  for (const size_t j : wanting_) {
    const bool stays = pinned && calm(j) && kept.count(j) > 0;
    const auto unreachable = [&](uint32_t d) { return !sites_[d].device->reachable; };
    for (const uint32_t d : kept.devices(j))
      if (const Seat* s = kept.seat(j, d); s->instance && (stays || unreachable(d)))
        plan.keep(j, {s->instance, d});
    if (!stays)
      open.push_back(j);
    else if (!plan.give_least(j, true))
      plan.remove_all(j);
  }
  for (size_t begin = 0, end = 0; begin < open.size(); begin = end) {
    const int priority = jobs_[open[begin]].view->spec.priority;
    std::vector<size_t> tier;
    for (; end < open.size() && jobs_[open[end]].view->spec.priority == priority; ++end)
      if (plan.give_least(open[end], true))
        tier.push_back(open[end]);
      else
        plan.remove_all(open[end]);
    plan.grow(tier);
  }
}

// Returns whether a job that is served only in `a` comes before any that is served only in `than`.
bool Elastic::serves_more(const JobPlan& a, const JobPlan& than) const {
  for (size_t j = 0; j < jobs_.size(); ++j)
    if ((a.count(j) > 0) != (than.count(j) > 0)) return a.count(j) > 0;
  return false;
}

bool Elastic::better(const JobPlan& a, const JobPlan& than) const {
  double with = 0, without = 0;
  for (size_t j = 0; j < jobs_.size(); ++j) {
    if (a.relative(j) == than.relative(j) && a.devices(j) == than.devices(j)) continue;
    with += a.relative(j);
    without += than.relative(j) * (1 + rules_[j].better_by);
    if (than.count(j) > 0 && a.count(j) == 0) return false;  // no job ends for others' goodput
  }
  return with > without + 1e-9;
}

JobPlan Elastic::choose(const JobPlan& kept, const std::vector<size_t>& waiting) {
  if (!waiting.empty()) {
    JobPlan anew(jobs_, sites_, rules_);
    deal(anew, false, kept);
    if (serves_more(anew, kept)) return anew;
  }
  std::vector<size_t> growing;
  for (const size_t j : wanting_)
    if (!calm(j)) growing.push_back(j);
  if (growing.empty()) return kept;
  JobPlan best = kept, grown = kept, anew(jobs_, sites_, rules_);
  grown.grow(growing);
  if (better(grown, best)) best = std::move(grown);
  deal(anew, true, kept);
  if (!serves_more(kept, anew) && better(anew, best)) best = std::move(anew);
  return best;
}

}  // namespace

std::span<const Setting<ElasticSettings>> ElasticSettings::settings() {
  using S = ElasticSettings;
  static constexpr Setting<S> kAll[] = {
      {"floor", &S::floor, 1, 1000, "a worker's request"},
      {"ceiling", &S::ceiling, 1, 1000, "a worker's limit, what it borrows included"},
      {"least_gain", &S::least_gain, 0, 1000, "of one worker's goodput, to start another"},
      {"better_by", &S::better_by, 0, 1000, "by which jobs must do better to be changed"},
      {"least_speed", &S::least_speed, 1, 1000, "of a free device, below which a worker leaves"},
      {"calm", &S::calm, 0, 3600, "between two changes of a job that nothing forces"},
  };
  return kAll;
}

std::vector<Action> plan_elastic(Input& input) {
  return Elastic(input).decide();
}

}  // namespace sluice::policy
