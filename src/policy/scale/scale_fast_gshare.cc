#include "policy/scale/scale_fast_gshare.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "policy/explain.h"
#include "policy/scale/capability.h"
#include "policy/scale/fleet.h"
#include "policy/scale/released.h"
#include "policy/scale/replicas.h"
#include "policy/scale/shortage.h"
#include "policy/scale/unmeasured.h"

namespace sluice::policy {
namespace {

constexpr double kAsEfficient = 0.99;

// A batch has to be in time with the instance's request alone, as the profiler measured it.
Sizing sizing(const FastGshareSettings& config) {
  return {.slo_fraction = config.slo_fraction};
}

// Algorithm 1 for one revision, on the plan left by the functions before it.
class HeuristicScaler {
 public:
  HeuristicScaler(ClusterPlan& plan, Released& released, const Demand& demand)
      : plan_(plan),
        released_(released),
        demand_(demand),
        config_(demand.settings->as<FastGshareSettings>()),
        capabilities_(demand, sizing(config_), plan.predictor(), plan.types()) {}
  HeuristicScaler(const HeuristicScaler&) = delete;

  void scale_down();
  void scale_up();

 private:
  bool known() const { return capabilities_.best().known(); }
  double rate() const { return demand_.rate() * config_.headroom; }
  bool active(int count) const;
  int least(int count) const;
  Fleet fleet() const;  // least efficient first
  std::vector<Profiled> profile() const;
  void hold_unmeasured();
  void leave_cordoned();
  double start_one(double gap, double capacity, std::vector<Profiled>& profile);
  void stop(size_t i, Reason reason);

  std::string needed_text() const;
  std::string load_text(double capacity) const;
  Reason why_started(const Profiled& p, const Layout& on, double gap, double capacity) const;
  Reason why_left(const Member& left, double before, double after) const;
  Reason why_unmet(double gap, double capacity, int count) const;

  ClusterPlan& plan_;
  Released& released_;
  const Demand& demand_;
  const FastGshareSettings& config_;
  const Capabilities capabilities_;
};

// With work, or with a request within scaleToZeroAfter.
bool HeuristicScaler::active(int count) const {
  if (demand_.part <= 0) return false;
  return demand_.busy() || (count > 0 && demand_.view->last_request != Time{} &&
                            !demand_.rested(plan_.input().snapshot.now));
}

int HeuristicScaler::least(int count) const {
  const int stated = demand_.inference().min_replicas;
  return stated > 0 ? stated : active(count) ? 1 : 0;
}

// Of equal ones the newest first.
Fleet HeuristicScaler::fleet() const {
  Fleet all(plan_, demand_, [&](const Instance& i, const Device& device) {
    return capabilities_.on(device).of({i.batch, i.slice().sm, i.slice().quota.request});
  });
  const auto per_resource = [&](const Member& m) {
    const Slice& slice = all.instance(m).slice();
    return m.rate / std::max(1e-6, slice.sm.fraction() * slice.quota.request.fraction());
  };
  std::ranges::sort(all.members(), [&](const Member& a, const Member& b) {
    const Instance &x = all.instance(a), &y = all.instance(b);
    return std::tuple(per_resource(a), y.started, x.id) <
           std::tuple(per_resource(b), x.started, y.id);
  });
  return all;
}

// --- down ---

void HeuristicScaler::scale_down() {
  if (!known()) return;
  const Fleet fleet = this->fleet();
  const double before = fleet.sum();
  const int most = most_replicas(demand_);
  double capacity = before, ready = fleet.ready().sum;
  int count = fleet.count();
  const int stay = least(count);
  for (const Member& m : fleet.members()) {
    if (count <= stay) break;
    if (!plan_.can_change(m.at)) continue;
    const double rest = std::max(0.0, capacity - m.rate);
    // Starting ones count, but a ready one stays until those can do its work.
    const bool needed = rate() > rest || (fleet.is_ready(m) && rate() > ready - m.rate);
    if (needed && count <= most) break;
    ready -= fleet.is_ready(m) ? m.rate : 0;
    capacity = rest, --count;
    stop(m.at, why_left(m, before, capacity));
  }
  leave_cordoned();
}

// Make before break: the others must be ready, and sufficient or as many as may be.
void HeuristicScaler::leave_cordoned() {
  const std::vector<size_t> cordoned = plan_.cordoned(demand_);
  if (cordoned.empty()) return;
  const Fleet::Ready ready = fleet().ready();
  const bool sufficient =
      ready.sum * (1 + config_.slack) >= rate() || ready.count >= most_replicas(demand_);
  if (ready.count < least(ready.count) || !sufficient) return;
  for (const size_t i : cordoned)
    stop(i,
         {"drained-device",
          "Device " + plan_.at(i).instance.device() + " is cordoned; " + needed_text() + ", and " +
              counted(ready.count, "instance") + " elsewhere can do " + per_second(ready.sum) + ".",
          nonzero({{"rate", rate()}, {"capacity_after", ready.sum}})});
}

void HeuristicScaler::stop(size_t i, Reason reason) {
  released_.add(plan_.at(i));
  plan_.stop(i, std::move(reason));
}

// --- up ---

void HeuristicScaler::scale_up() {
  if (!known()) return hold_unmeasured();
  const Fleet fleet = this->fleet();
  double capacity = fleet.sum();
  int count = fleet.count();
  const int stay = least(count);
  std::optional<std::vector<Profiled>> left;  // of the profile, what may still fit
  for (;; ++count) {
    double gap = rate() - capacity;
    if (gap <= config_.slack * capacity) gap = 0;
    if (gap <= 0 && count >= stay) return;
    if (!left) left = profile();
    const double added = count < most_replicas(demand_) ? start_one(gap, capacity, *left) : 0;
    if (added <= 0) return plan_.unmet(demand_, gap, why_unmet(gap, capacity, count));
    capacity += added;
  }
}

// The configurations that are in time, on each type of device.
std::vector<Profiled> HeuristicScaler::profile() const {
  std::vector<Profiled> found;
  for (const Device* type : plan_.types()) {
    const Capability& capability = capabilities_.on(*type);
    if (!capability.known()) continue;
    for (const Share sm : widths_on(*type, capability.widths())) {
      for (Share quota = kNone; quota < kWhole;) {
        quota = std::min(quota + config_.quota_step, kWhole);
        const std::optional<int> batch = capability.best_batch(sm, quota);
        if (!batch) continue;
        found.push_back({type, sm, quota, *batch, capability.of({*batch, sm, quota})});
      }
    }
  }
  return found;
}

// Starts p_eff if it is needed as a whole, else p_ideal. Drops from the profile what fits on no
// device. Returns the throughput of what it started, 0 if nothing fits.
double HeuristicScaler::start_one(double gap, double capacity, std::vector<Profiled>& profile) {
  while (!profile.empty()) {
    const Profiled* p = most_efficient(profile);
    if (gap < p->throughput)
      if (const Profiled* ideal = least_sufficient(profile, gap)) p = ideal;
    const Capability& there = capabilities_.on(*p->type);
    const Quota quota{p->quota, config_.borrow ? kWhole : p->quota};
    const std::vector<Spot> spots =
        plan_.layouts().place({demand_.view, p->sm, quota, there.memory(), 1, p->type});
    if (!spots.empty()) {
      const Spot& spot = spots.front();
      plan_.start(demand_, spot, quota, there.memory(), p->batch,
                  why_started(*p, *spot.device, gap, capacity));
      return p->throughput;
    }
    const Profiled failed = *p;
    std::erase_if(profile, [&](const Profiled& other) {  // nor does what is no smaller
      return other.type == failed.type && other.sm >= failed.sm && other.quota >= failed.quota;
    });
  }
  return 0;
}

// Algorithm 1 has no configuration of a model that the profiler never saw: its instances have the
// file's slice, else a quarter of a device's time, and their number does not change.
void HeuristicScaler::hold_unmeasured() {
  const int running = static_cast<int>(plan_.serving(demand_).size());
  const int count = least(running);
  Slice slice = stated_slice(plan_, demand_);
  if (!demand_.spec->slice) slice.quota = {kUnmeasured, kWhole};
  hold_replicas(plan_, demand_,
                {count,
                 count,
                 slice,
                 "The model was never measured (sluice profile): " + counted(count, "instance") +
                     ", whatever the rate.",
                 {}});
  report_unmeasured(plan_, demand_);
}

// --- reasons ---

// "45.0/s needed (150 % of the rate)".
std::string HeuristicScaler::needed_text() const {
  if (demand_.rate() < 0.05) return "No load";
  const std::string part =
      config_.headroom == 1 ? "" : " (" + percent(config_.headroom) + " of the rate)";
  return per_second(rate()) + " needed" + part;
}

// "45.0/s needed, 16.0/s there".
std::string HeuristicScaler::load_text(double capacity) const {
  return needed_text() + (capacity > 0 ? ", " + per_second(capacity) + " there" : ", none there");
}

Reason HeuristicScaler::why_started(const Profiled& p, const Layout& on, double gap,
                                    double capacity) const {
  const Numbers numbers = nonzero({{"rate", rate()},
                                   {"capacity", capacity},
                                   {"capacity_after", capacity + p.throughput},
                                   {"per_resource", p.per_resource()}});
  const std::string lead = gap > 0 ? load_text(capacity) : "minReplicas, or a request waits";
  const std::string started = lead + ". " + (capacity > 0 ? "Another" : "An") + " instance, " +
                              slice_text(p.sm, p.quota) + " on " + on.device().id + ", batch " +
                              std::to_string(p.batch) + ", brings " + per_second(p.throughput);
  if (gap <= 0) return {"keep-alive", started + ".", numbers};
  if (gap >= p.throughput)
    return {"most-efficient", started + ", the most for its sm × quota.", numbers};
  return {"least-sufficient", started + ", the least that covers the rest.", numbers};
}

Reason HeuristicScaler::why_left(const Member& left, double before, double after) const {
  return {"scale-in",
          load_text(before) + ". This one does the least for its sm × quota; without its " +
              per_second(left.rate) + " there are " + per_second(after) + ".",
          nonzero({{"rate", rate()}, {"capacity", before}, {"capacity_after", after}})};
}

Reason HeuristicScaler::why_unmet(double gap, double capacity, int count) const {
  const Numbers numbers = nonzero({{"rate", rate()}, {"capacity", capacity}, {"gap", gap}});
  if (count >= most_replicas(demand_))
    return {"max-replicas",
            load_text(capacity) + ": maxReplicas allows " + std::to_string(count) + ".", numbers};
  const Capability& best = capabilities_.best();
  if (*best.fastest() > best.bound())
    return {"slo-impossible",
            "No slice meets the objective of " + milliseconds(demand_.inference().slo.latency) +
                ": a whole device answers one request in " + milliseconds(*best.fastest()) + ".",
            {{"fastest_ms", millis(*best.fastest())}}};
  const std::string what = best.bound() == Nanos::max()
                               ? "another slice"
                               : "a slice that answers within " + milliseconds(best.bound());
  return shortage(plan_, load_text(capacity) + "; " + per_second(gap) + " stay uncovered: ", what,
                  best.memory(), numbers, &demand_);
}

}  // namespace

std::span<const Setting<FastGshareSettings>> FastGshareSettings::settings() {
  using S = FastGshareSettings;
  static constexpr Setting<S> kAll[] = {
      {"headroom", &S::headroom, 1, 10, "the measured rate is multiplied by it"},
      {"slo_fraction", &S::slo_fraction, 0.05, 1, "of the objective: the longest batch"},
      {"quota_step", &S::quota_step, 10, 1000, "between the quotas that are considered"},
      {"borrow", &S::borrow, 0, 1, "an instance may use what others leave idle"},
      {"slack", &S::slack, 0, 0.5, "gap, as a part of the capacity, that is worth no start"},
  };
  return kAll;
}

const Profiled* most_efficient(std::span<const Profiled> profile) {
  double most = 0;
  for (const Profiled& p : profile) most = std::max(most, p.per_resource());
  const Profiled* best = nullptr;
  for (const Profiled& p : profile) {
    if (p.per_resource() < kAsEfficient * most) continue;
    if (best == nullptr || p.throughput > best->throughput) best = &p;
  }
  return best;
}

const Profiled* least_sufficient(std::span<const Profiled> profile, double rest) {
  const auto rank = [](const Profiled& p) {
    return std::pair(p.throughput, p.sm.fraction() * p.quota.fraction());
  };
  const Profiled* least = nullptr;
  for (const Profiled& p : profile) {
    if (p.throughput < rest) continue;
    if (least == nullptr || rank(p) < rank(*least)) least = &p;
  }
  return least;
}

std::vector<Action> scale_fast_gshare(Input& input) {
  ClusterPlan plan(input, /*movable=*/true);
  Released released(input, plan);
  released.offer();
  std::deque<HeuristicScaler> scalers;
  for (const Demand& d : plan.demands()) scalers.emplace_back(plan, released, d);
  for (HeuristicScaler& s : scalers) s.scale_down();
  for (HeuristicScaler& s : scalers) s.scale_up();
  return plan.actions();
}

}  // namespace sluice::policy
