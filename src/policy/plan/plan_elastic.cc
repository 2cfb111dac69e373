#include "policy/plan/plan_elastic.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "policy/plan/job_actions.h"
#include "policy/plan/job_memory.h"
#include "policy/plan/job_plan.h"
#include "policy/plan/job_reasons.h"
#include "policy/plan/job_sizes.h"
#include "policy/plan/job_weights.h"

namespace sluice::policy {
namespace {

// Seconds that a change is taken to last, where its job does not end before.
constexpr double kLasts = 600;
// A goodput of none, beside that of one worker; and what it costs to end a job.
constexpr double kNothing = 1e-3, kEnded = 1e12;
// What a device is worth to a job without any, × w: more than all that others may gain.
constexpr double kFirst = 1e6;

class Elastic {
 public:
  explicit Elastic(Input& input)
      : input_(input),
        jobs_(jobs_of(input)),
        sites_(sites_of(input, jobs_)),
        rules_(rules()),
        stop_(longest_stop()),
        memory_(input, jobs_.empty() ? Nanos(0) : settings(0).calm) {
    for (size_t j = 0; j < jobs_.size(); ++j)
      if (jobs_[j].wants_workers()) wanting_.push_back(j);
    // By priority, then by worth. One that runs has to be outdone clearly.
    std::ranges::stable_sort(wanting_, {}, [this](size_t j) {
      const double runs = jobs_[j].workers.empty() ? 1 : 2;
      return std::pair(-jobs_[j].view->spec.priority, -rules_[j].weight * runs);
    });
  }

  std::vector<Action> decide() {
    JobPlan kept = survivors();
    leave_slow(kept);
    for (const size_t j : wanting_)
      if (static_cast<int>(kept.count(j)) < jobs_[j].least() && !kept.give_least(j, false))
        kept.remove_all(j);
    const JobPlan chosen = choose(kept);
    for (const size_t j : wanting_)
      // A job that is measured first grows as soon as it is.
      if (!jobs_[j].state().measures_first && (chosen.devices(j) != kept.devices(j) ||
                                               (jobs_[j].workers.empty() && chosen.count(j) > 0)))
        memory_.note_change(jobs_[j].name());
    return job_actions(input_, jobs_, sites_, rules_, chosen, leaves_);
  }

 private:
  const ElasticSettings& settings(size_t job) const {
    return jobs_[job].settings->as<ElasticSettings>();
  }
  std::vector<JobRules> rules() const {
    std::vector<JobRules> all;
    std::vector<double> exponents;
    for (size_t j = 0; j < jobs_.size(); ++j)
      exponents.push_back(settings(j).short_first.fraction());
    const std::vector<double> weights = job_weights(jobs_, exponents);
    for (size_t j = 0; j < jobs_.size(); ++j)
      all.push_back({.floor = settings(j).floor,
                     .ceiling = std::max(settings(j).floor, settings(j).ceiling),
                     .least_speed = settings(j).least_speed.fraction(),
                     .least_gain = settings(j).least_gain.fraction(),
                     .better_by = settings(j).better_by.fraction(),
                     .alone = goodput_alone(jobs_[j]),
                     .weight = weights[j]});
    return all;
  }
  Nanos longest_stop() const {
    Nanos longest{0};
    for (const Job& job : jobs_)
      if (job.wants_workers()) longest = std::max(longest, job.state().reform);
    return longest;
  }
  // The devices that take workers, or have some.
  struct Devices {
    int count = 0;
    std::vector<double> speeds;  // of those that take some, the fastest first
    int of_a_node = 1;           // the largest one
    std::map<Bytes, int> room;   // that take one, by the memory that it needs
  };
  JobPlan survivors();
  void leave_slow(JobPlan& kept);
  std::vector<uint32_t> reclaimed(const JobPlan& all) const;
  Devices open_devices(const JobPlan& kept) const;
  double worth(size_t job, double relative, bool changes) const;
  double utility(size_t job, double worth) const;
  bool keeps(size_t job, const JobPlan& kept) const;
  bool is_pinned(size_t job, const JobPlan& kept) const;
  std::vector<JobSize> sizes(size_t job, const Devices& all, const JobPlan& kept) const;
  static bool leaves_waiting(const std::vector<std::vector<JobSize>>& options,
                             const std::vector<size_t>& chosen);
  std::vector<int> best_counts(const Devices& all, const JobPlan& kept) const;
  void improve(JobPlan& plan, size_t job, const Devices& all, const JobPlan& kept) const;
  JobPlan placed(const std::vector<int>& counts, const Devices& all, const JobPlan& kept) const;
  bool make_room(JobPlan& plan, size_t job) const;
  JobPlan choose(const JobPlan& kept) const;
  bool better(const JobPlan& a, const JobPlan& than) const;

  Input& input_;
  const std::vector<Job> jobs_;
  std::vector<Site> sites_;
  const std::vector<JobRules> rules_;
  const Nanos stop_;  // for how long a job stops at a change, at most
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

// Returns a relative goodput of the job, less what the change to it costs while it lasts.
double Elastic::worth(size_t job, double relative, bool changes) const {
  const JobView& state = jobs_[job].state();
  if (!changes || jobs_[job].workers.empty() || relative <= 0) return relative;
  double lasts = kLasts;
  if (state.samples > 0) {
    const auto samples = static_cast<double>(std::max<int64_t>(state.samples - state.done, 0));
    lasts = std::min(lasts, samples / (relative * rules_[job].alone));
  }
  return relative * lasts / (lasts + seconds(stop_) + 1e-9) / (1 + rules_[job].better_by);
}

// What the plan is worth to the job: w·log(goodput).
double Elastic::utility(size_t job, double worth) const {
  return rules_[job].weight * std::log(std::max(worth, kNothing));
}

// One that lost workers by force is changed anyway.
bool Elastic::keeps(size_t job, const JobPlan& kept) const {
  return kept.count(job) > 0 && kept.count(job) == jobs_[job].workers.size();
}

bool Elastic::is_pinned(size_t job, const JobPlan& kept) const {
  return keeps(job, kept) && memory_.changed_within(jobs_[job].name(), settings(job).calm);
}

// Returns the sizes that the job could have, with what each is worth on devices of that kind.
std::vector<JobSize> Elastic::sizes(size_t job, const Devices& all, const JobPlan& kept) const {
  const int now = static_cast<int>(kept.count(job)), least = jobs_[job].least();
  std::vector<JobSize> sizes;
  // A job waits only if there are too few, and one that runs ends only if higher priorities leave
  // it nothing.
  sizes.push_back({0, now > 0 ? -kEnded : -kFirst * rules_[job].weight});
  const int room = all.room.at(jobs_[job].view->spec.memory);
  const int most = jobs_[job].state().measures_first ? std::max(now, jobs_[job].most_to_measure())
                                                     : jobs_[job].most();
  std::vector<int> wanted = sizes_between(least, std::min(room, most), now, all.of_a_node);
  if (now > 0 && std::ranges::find(wanted, now) == wanted.end())
    wanted.insert(std::ranges::upper_bound(wanted, now), now);
  JobSize last{};  // with its goodput
  for (const int k : wanted) {
    const Workers workers{.count = k,
                          .nodes = k > all.of_a_node ? 2 : 1,
                          .speed = k <= room ? all.speeds[static_cast<size_t>(k - 1)] : 1};
    // With as many workers it stays, or moves to better devices (improve()).
    const double anew = k <= room ? goodput(jobs_[job], workers) / rules_[job].alone : 0;
    const double stays = k == now ? kept.relative(job) : 0;
    const double best = std::max(stays, worth(job, anew, keeps(job, kept)));
    const bool gains =
        std::max(stays, anew) >= last.value + rules_[job].least_gain * (k - last.devices);
    if (best <= 0 || (!gains && k != now && k != least)) continue;
    if (gains) last = {k, std::max(stays, anew)};
    sizes.push_back({k, utility(job, best)});
  }
  return sizes;
}

// Returns for each job of wanting_ how many devices it should have. A priority has what those above
// leave, and leaves its least to every job below that runs, while its own jobs have theirs.
std::vector<int> Elastic::best_counts(const Devices& all, const JobPlan& kept) const {
  std::vector<int> counts;
  int left = all.count;
  const auto priority = [&](size_t j) { return jobs_[j].view->spec.priority; };
  for (size_t begin = 0, end = 0; begin < wanting_.size(); begin = end) {
    int own = 0, below = 0;
    std::vector<std::vector<JobSize>> options, pinned;
    for (; end < wanting_.size() && priority(wanting_[end]) == priority(wanting_[begin]); ++end) {
      const size_t j = wanting_[end];
      own += jobs_[j].least();
      options.push_back(sizes(j, all, kept));
      pinned.push_back(options.back());
      if (is_pinned(j, kept)) pinned.back() = {{static_cast<int>(kept.count(j)), 0}};
    }
    for (size_t i = end; i < wanting_.size(); ++i)
      if (kept.count(wanting_[i]) > 0) below += jobs_[wanting_[i]].least();
    const int mine = std::max(left - below, std::min(left, own));
    std::vector<size_t> best = best_sizes(pinned, mine);
    const bool waits = best.empty() || leaves_waiting(pinned, best);
    const auto& chosen = waits ? options : pinned;
    if (waits) best = best_sizes(options, mine);
    for (size_t i = 0; i < best.size(); ++i) {
      counts.push_back(chosen[i][best[i]].devices);
      left -= counts.back();
    }
  }
  return counts;
}

// Returns whether a job has nothing while another that changed of late could give way.
bool Elastic::leaves_waiting(const std::vector<std::vector<JobSize>>& options,
                             const std::vector<size_t>& chosen) {
  bool waits = false, gives = false;
  for (size_t i = 0; i < options.size(); ++i) {
    waits |= options[i].size() > 1 && options[i][chosen[i]].devices == 0;
    gives |= options[i].size() == 1 && options[i].front().devices > 0;
  }
  return waits && gives;
}

// The devices on which workers can be by themselves, or are.
Elastic::Devices Elastic::open_devices(const JobPlan& kept) const {
  Devices all;
  std::vector<uint32_t> open;
  const JobPlan empty(jobs_, sites_, rules_);
  for (const size_t j : wanting_) {
    const auto [room, is_new] = all.room.try_emplace(jobs_[j].view->spec.memory);
    if (!is_new) continue;
    std::vector<uint32_t> idle = empty.idle_devices(j);
    room->second = static_cast<int>(idle.size());
    if (idle.size() > open.size()) open = std::move(idle);
  }
  std::map<size_t, int> nodes;
  for (uint32_t d = 0; d < sites_.size(); ++d) {
    const bool is_open = std::ranges::binary_search(open, d);
    if (is_open) all.speeds.push_back(std::max(sites_[d].idle, 0.001));
    if (is_open) all.of_a_node = std::max(all.of_a_node, ++nodes[sites_[d].node]);
    all.count += is_open || !kept.seats(d).empty();
  }
  std::ranges::sort(all.speeds, std::greater<>());
  return all;
}

// Moves a job of that plan where it does better with as many workers.
void Elastic::improve(JobPlan& plan, size_t job, const Devices& all, const JobPlan& kept) const {
  const bool spread = plan.nodes(job) > 1 && static_cast<int>(plan.count(job)) <= all.of_a_node;
  if (plan.count(job) == 0 || is_pinned(job, kept) || (plan.speed(job) >= 0.95 && !spread)) return;
  JobPlan moved = plan;
  moved.remove_all(job);
  if (!moved.give(job, static_cast<int>(plan.count(job)))) return;
  const bool changes = plan.devices(job) != kept.devices(job);
  if (worth(job, moved.relative(job), true) > worth(job, plan.relative(job), changes) * (1 + 1e-9))
    plan = std::move(moved);
}

// Returns the plan with these devices for each job of wanting_, as far as they can be placed.
JobPlan Elastic::placed(const std::vector<int>& counts, const Devices& all,
                        const JobPlan& kept) const {
  JobPlan plan = kept;
  std::vector<std::pair<int, size_t>> changed;  // devices, job
  for (size_t i = 0; i < wanting_.size(); ++i)
    if (counts[i] != static_cast<int>(kept.count(wanting_[i])))
      changed.emplace_back(counts[i], wanting_[i]);
  for (const auto& [devices, j] : changed) plan.remove_all(j);
  std::ranges::stable_sort(changed, {}, [&](const auto& c) {
    return std::pair(-jobs_[c.second].view->spec.priority, -c.first);
  });
  for (const auto& [devices, j] : changed)
    if (devices > 0) plan.give_most(j, devices, all.of_a_node);
  return plan;
}

JobPlan Elastic::choose(const JobPlan& kept) const {
  const Devices all = open_devices(kept);
  JobPlan plan = kept;
  if (all.count > 0) {
    std::vector<int> counts = best_counts(all, kept);
    plan = placed(counts, all, kept);
    if (!better(plan, kept)) {  // those that were to grow, and do worse where they are placed, stay
      for (size_t i = 0; i < wanting_.size(); ++i) {
        const size_t j = wanting_[i];
        const int now = static_cast<int>(kept.count(j));
        if (now > 0 && counts[i] > now &&
            worth(j, plan.relative(j), keeps(j, kept)) <= kept.relative(j))
          counts[i] = now;
      }
      plan = placed(counts, all, kept);
    }
    if (!better(plan, kept)) plan = kept;
    for (const size_t j : wanting_) improve(plan, j, all, kept);
  }
  for (const size_t j : wanting_) {
    if (plan.count(j) > 0 || plan.give_least(j, false)) continue;
    JobPlan room = plan;
    if (make_room(room, j))
      plan = std::move(room);
    else
      plan.give_least(j, true);
  }
  return plan;
}

// Gives a job its least on devices of jobs that have more than theirs, each where least is lost.
// Returns false, with some of them freed, if there are too few.
bool Elastic::make_room(JobPlan& plan, size_t job) const {
  const int priority = jobs_[job].view->spec.priority;
  while (!plan.give_least(job, false)) {
    std::optional<std::tuple<double, size_t, uint32_t>> best;  // what is lost, job, device
    for (const size_t j : wanting_) {
      if (jobs_[j].view->spec.priority > priority) continue;
      if (static_cast<int>(plan.count(j)) <= jobs_[j].least()) continue;
      for (const uint32_t d : plan.devices(j)) {
        const std::tuple loss(plan.lost_without(d) * rules_[j].weight, j, d);
        if (sites_[d].closed.empty() && (!best || loss < *best)) best = loss;
      }
    }
    if (!best) return false;
    plan.remove(std::get<1>(*best), std::get<2>(*best));
  }
  return true;
}

// The highest priority that is changed decides.
bool Elastic::better(const JobPlan& a, const JobPlan& than) const {
  std::map<int, double, std::greater<>> gains;  // by priority
  for (const size_t j : wanting_)
    if (a.devices(j) != than.devices(j))
      gains[jobs_[j].view->spec.priority] +=
          utility(j, worth(j, a.relative(j), keeps(j, than))) - utility(j, than.relative(j));
  for (const auto& [priority, gain] : gains)
    if (std::abs(gain) > 1e-9) return gain > 0;
  return false;
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
      {"short_first", &S::short_first, 0, 1000,
       "by which jobs that end soon come first; 0: an equal share for all"},
  };
  return kAll;
}

std::vector<Action> plan_elastic(Input& input) {
  return Elastic(input).decide();
}

}  // namespace sluice::policy
