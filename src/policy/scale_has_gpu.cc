#include "policy/scale_has_gpu.h"

#include <algorithm>
#include <string>
#include <utility>

#include "policy/capability.h"
#include "policy/choose_slice.h"
#include "policy/cluster_plan.h"
#include "policy/explain.h"
#include "policy/shortage.h"

namespace sluice::policy {
namespace {

// Algorithm 1 for one revision, on the plan that the functions before it left.
class HybridScaler {
 public:
  HybridScaler(ClusterPlan& plan, const Demand& demand, const Predictor& predictor, Time now)
      : plan_(plan),
        demand_(demand),
        config_(demand.settings->as<HasGpuSettings>()),
        predictor_(predictor),
        capability_(demand, config_, predictor),
        now_(now) {}

  void scale_down();
  void scale_up();
  void leave_drained();

 private:
  // Inferences per second that the revision has to be able to do (j).
  double wanted() const { return demand_.rate() / config_.alpha + work_off(); }
  double load() const { return demand_.rate() + work_off(); }
  double work_off() const;
  Quota quota(Share request) const { return {request, config_.borrow ? kWhole : request}; }
  double capability(const Instance& instance, Share quota) const;
  double capability(size_t i) const;
  std::vector<size_t> counted() const;  // serving, not on a drained device
  double capacity() const;

  bool starts_were_worth_it() const;
  Share lowered_quota(const Instance& instance, double needed) const;
  Share raised_quota(const Instance& instance, double needed) const;
  void raise_quotas();
  void start_instances();
  std::optional<SliceCandidate> as_stated(double need);
  bool equal_share() const;
  void start(const SliceCandidate& c, double gap);

  std::string load_text() const;
  std::string carries_text(double capacity) const;
  std::string always_text() const;
  Numbers numbers(double before, double after) const;
  Reason why_less(std::string rule, const std::string& change, double before, double after) const;
  Reason why_started(const SliceCandidate& c, double gap) const;
  Reason why_unmet(double gap) const;
  std::string uncovered_text(double gap) const;

  ClusterPlan& plan_;
  const Demand& demand_;
  const HasGpuSettings& config_;
  const Predictor& predictor_;
  Capability capability_;
  Time now_;
};

double HybridScaler::capability(const Instance& instance, Share quota) const {
  return capability_.of({instance.batch, instance.slice.sm, quota});
}

double HybridScaler::capability(size_t i) const {
  const Instance& instance = plan_.at(i).instance;
  return capability(instance, instance.slice.quota.request);
}

std::vector<size_t> HybridScaler::counted() const {
  std::vector<size_t> found = plan_.serving(demand_);
  std::erase_if(found, [&](size_t i) { return plan_.on_drained(i); });
  return found;
}

double HybridScaler::capacity() const {
  double sum = 0;
  for (const size_t i : counted()) sum += capability(i);
  return sum;
}

// What waits beyond one batch for each instance, which are about to take it. What waits for a first
// instance to become ready says nothing of the capacity.
double HybridScaler::work_off() const {
  if (!config_.work_off || demand_.spec->slo.latency <= Nanos(0)) return 0;
  double waiting = demand_.view->queued * demand_.part;
  bool ready = false;
  for (const size_t i : counted()) {
    waiting -= plan_.at(i).instance.batch;
    ready |= plan_.at(i).instance.state == InstanceState::kReady;
  }
  if (!ready) return 0;
  return std::max(0.0, waiting) / (seconds(demand_.spec->slo.latency) * config_.slo_fraction);
}

// "8.9/s expected".
std::string HybridScaler::load_text() const {
  const std::string expected = demand_.rate() < 0.05 ? "No load" : per_second(demand_.rate());
  if (work_off() <= 0) return expected + " expected";
  return expected + " expected and " + std::to_string(demand_.view->queued) +
         " waiting, which need another " + per_second(work_off()) + " to be in time";
}

// "12.6/s at 70 % carries 8.8/s; 8.9/s expected".
std::string HybridScaler::carries_text(double capacity) const {
  if (capacity <= 0) return load_text() + " and no instance to carry it";
  return per_second(capacity) + " at " + percent(config_.alpha) + " carries " +
         per_second(config_.alpha * capacity) + "; " + load_text();
}

Numbers HybridScaler::numbers(double before, double after) const {
  return nonzero({{"forecast", demand_.rate()},
                  {"waiting", demand_.view->queued * demand_.part},
                  {"capacity", before},
                  {"capacity_after", after}});
}

// --- down ---

void HybridScaler::scale_down() {
  const double before = capacity();
  const Time last = demand_.view->last_scale_down;
  if (load() >= config_.beta * before) return;
  if (last != Time{} && now_ - last < config_.cooldown) return;

  std::vector<size_t> narrowest_first = counted();
  std::stable_sort(narrowest_first.begin(), narrowest_first.end(), [&](size_t a, size_t b) {
    return plan_.at(a).instance.slice.sm < plan_.at(b).instance.slice.sm;
  });
  double left = before;
  int count = static_cast<int>(narrowest_first.size());
  const bool may_leave = starts_were_worth_it();
  for (const size_t i : narrowest_first) {
    const double others = left - capability(i);
    if (may_leave && count > least_replicas(demand_) && others >= wanted()) {
      left = others, --count;
      const std::string rest =
          count == 1 ? "the other one can do " : "the other " + std::to_string(count) + " can do ";
      plan_.stop(i, why_less("scale-in", rest + per_second(left), before, left));
      continue;
    }
    const Instance instance = plan_.at(i).instance;
    const Share from = instance.slice.quota.request;
    const Share to = lowered_quota(instance, wanted() - others);
    if (to == from) continue;
    left = others + capability(instance, to);
    const std::string change = "quota " + percent(from) + " → " + percent(to) + " on " +
                               instance.device + " leaves " + per_second(left);
    plan_.resize(i, quota(to), why_less("vertical-down", change, before, left));
  }
}

bool HybridScaler::starts_were_worth_it() const {
  if (!config_.outlast_starts) return true;
  const std::vector<size_t> all = counted();
  return std::all_of(all.begin(), all.end(), [&](size_t i) {
    const Instance& instance = plan_.at(i).instance;
    if (instance.state != InstanceState::kReady) return false;
    return instance.started == Time{} || now_ - instance.started >= 2 * demand_.view->start_cost;
  });
}

// The smallest quota on the way down with which the instance still does `needed`.
Share HybridScaler::lowered_quota(const Instance& instance, double needed) const {
  const Share floor = capability_.idle_quota(instance.slice.sm, instance.batch).value_or(kWhole);
  Share quota = instance.slice.quota.request;
  while (quota > floor) {
    const Share next = std::max(quota_below(quota, config_), floor);
    if (capability(instance, next) < needed) break;
    quota = next;
  }
  return quota;
}

Reason HybridScaler::why_less(std::string rule, const std::string& change, double before,
                              double after) const {
  return {std::move(rule),
          load_text() + ", below " + percent(config_.beta) + " of the capacity of " +
              per_second(before) + ": " + change + ".",
          numbers(before, after)};
}

// --- up ---

void HybridScaler::scale_up() {
  if (wanted() > capacity()) raise_quotas();
  start_instances();
}

// Step 1.
void HybridScaler::raise_quotas() {
  std::vector<size_t> widest_first = counted();
  std::stable_sort(widest_first.begin(), widest_first.end(), [&](size_t a, size_t b) {
    return plan_.at(a).instance.slice.sm > plan_.at(b).instance.slice.sm;
  });
  const double before = capacity();
  double reached = before;
  for (const size_t i : widest_first) {
    if (reached >= wanted()) return;
    const Instance instance = plan_.at(i).instance;
    const double others = reached - capability(i);
    const Share from = instance.slice.quota.request;
    const Share to = raised_quota(instance, wanted() - others);
    const double then = others + capability(instance, to);
    if (then <= reached) continue;  // more time would not help this one
    reached = then;
    plan_.resize(i, quota(to),
                 {"vertical-up",
                  carries_text(before) + ". Quota " + percent(from) + " → " + percent(to) + " on " +
                      instance.device + " makes it " + per_second(reached) + ".",
                  numbers(before, reached)});
  }
}

// The first quota on the way up with which the instance does `needed`, or the most its lane has.
Share HybridScaler::raised_quota(const Instance& instance, double needed) const {
  const Share most = plan_.device(instance.device).max_quota(instance.id);
  Share quota = instance.slice.quota.request;
  while (quota < most && capability(instance, quota) < needed) {
    quota = std::min(quota_above(quota, config_), most);
  }
  return quota;
}

// Steps 2 and 3, repeated until the gap is covered and min_replicas are there (b).
void HybridScaler::start_instances() {
  for (;;) {
    const int count = static_cast<int>(counted().size());
    const int missing = least_replicas(demand_) - count;
    if (!capability_.known() && missing <= 0) return;  // kept alive, but nothing to scale by
    double gap = capability_.known() ? wanted() - capacity() : 0;
    if (gap <= config_.slack * capacity()) gap = 0;
    if (gap <= 0 && missing <= 0) return;
    const double need = std::max(gap, config_.min_rate);
    std::optional<SliceCandidate> chosen;
    if (count < most_replicas(demand_)) {
      if (count == 0 || !capability_.known()) chosen = as_stated(need);
      if (!chosen) chosen = covering_slice(plan_.devices(), capability_, config_, need);
      if (!chosen) chosen = most_capable_slice(plan_.devices(), capability_, config_);
    }
    if (!chosen) return plan_.unmet(demand_, need, why_unmet(gap));
    start(*chosen, gap);
  }
}

// The first instance has the slice that the function's file states, with more quota if the load
// needs it. Every instance of a function that was never measured has it too; where the file states
// none, an equal share of the emptiest device. Nothing: a measured function's file states none, or
// no device has room.
std::optional<SliceCandidate> HybridScaler::as_stated(double need) {
  const std::optional<Slice>& stated = demand_.spec->slice;
  if (!stated && capability_.known()) return std::nullopt;
  std::optional<SliceCandidate> c =
      stated ? exact_slice(plan_.devices(), stated->sm, stated->quota.request, capability_.memory(),
                           DeviceOrder::kUsedFirst)
             : exact_slice(plan_.devices(), kWhole, config_.unmeasured, capability_.memory(),
                           DeviceOrder::kEmptiestFirst);
  if (!c) return c;
  const int most = std::max(1, demand_.spec->batching.max_size);
  c->batch = capability_.best_batch(c->opening.sm, kWhole).value_or(most);
  const auto of = [&](Share q) { return capability_.of({c->batch, c->opening.sm, q}); };
  while (capability_.known() && of(c->quota) < need && c->quota < c->opening.quota) {
    c->quota = std::min(quota_above(c->quota, config_), c->opening.quota);
  }
  c->capability = of(c->quota);
  return c;
}

bool HybridScaler::equal_share() const {
  return !capability_.known() && !demand_.spec->slice;
}

void HybridScaler::start(const SliceCandidate& c, double gap) {
  const Quota held = equal_share() ? Quota{c.quota, kWhole} : quota(c.quota);
  plan_.start(demand_, *c.device, c.opening, held, capability_.memory(), c.batch,
              why_started(c, gap));
}

std::string HybridScaler::always_text() const {
  const int stay = least_replicas(demand_);
  return stay == 1 ? "One instance always stays"
                   : std::to_string(stay) + " instances always stay (minReplicas)";
}

Reason HybridScaler::why_started(const SliceCandidate& c, double gap) const {
  const double before = capacity();
  const std::string slice = slice_text(c.opening.sm, c.quota) + " on " + c.device->device().id;
  if (gap <= 0) {
    const std::string why_so =
        equal_share() ? ", an equal share, as the model was never measured (sluice profile)" : "";
    return {"keep-alive", always_text() + ": " + slice + why_so + ".",
            numbers(before, before + c.capability)};
  }
  return {c.device->used() ? "used-device" : "new-device",
          carries_text(before) + ". " + (before > 0 ? "Another" : "An") + " instance, " + slice +
              ", batch " + std::to_string(c.batch) + ", brings " + per_second(c.capability) + ".",
          numbers(before, before + c.capability)};
}

// --- drained devices ---

// Make before break: the others must be ready and enough.
void HybridScaler::leave_drained() {
  double ready = 0;
  int count = 0;
  for (const size_t i : counted()) {
    if (plan_.at(i).instance.state != InstanceState::kReady) continue;
    ready += capability(i), ++count;
  }
  if (count < least_replicas(demand_)) return;
  if (capability_.known() && ready < wanted()) return;
  for (const size_t i : plan_.serving(demand_)) {
    if (!plan_.on_drained(i)) continue;
    const std::string can_do = ready > 0 ? ", which can do " + per_second(ready) : "";
    plan_.stop(i, {"drained-device",
                   "Device " + plan_.at(i).instance.device + " is cordoned, and " +
                       policy::counted(count, "instance") + " elsewhere " +
                       (count == 1 ? "is" : "are") + " ready" + can_do + ".",
                   nonzero({{"forecast", demand_.rate()}, {"capacity_after", ready}})});
  }
}

// --- nothing fits ---

// What the missing instance would be for, and what stays on cordoned devices for the lack of it.
std::string HybridScaler::uncovered_text(double gap) const {
  std::string text = carries_text(capacity()) + ", " + per_second(gap) + " stay uncovered";
  if (gap <= 0) {
    const int count = static_cast<int>(counted().size());
    text = always_text() +
           (count == 0 ? " and none runs"
                       : ", and " + std::to_string(count) + (count == 1 ? " runs" : " run"));
  }
  for (const size_t i : plan_.serving(demand_)) {
    const Instance& instance = plan_.at(i).instance;
    if (plan_.on_drained(i))
      text += "; " + instance.id + " stays on the cordoned device " + instance.device;
  }
  return text + ": ";
}

Reason HybridScaler::why_unmet(double gap) const {
  const Numbers demand =
      nonzero({{"forecast", demand_.rate()}, {"capacity", capacity()}, {"gap", gap}});
  if (static_cast<int>(counted().size()) >= most_replicas(demand_)) {
    return {"max-replicas",
            uncovered_text(gap) + "maxReplicas allows " + std::to_string(most_replicas(demand_)) +
                ", and all of them have the most quota that their lanes have.",
            demand};
  }
  if (capability_.known() && *capability_.fastest() > capability_.bound()) {
    return {"slo-impossible",
            "No slice meets the objective of " + milliseconds(demand_.spec->slo.latency) +
                ": a whole device answers one request in " + milliseconds(*capability_.fastest()) +
                ".",
            {{"fastest_ms", millis(*capability_.fastest())}}};
  }
  const std::optional<Slice>& stated = demand_.spec->slice;
  std::string what = slice_text(kWhole, config_.unmeasured);
  if (stated && (!capability_.known() || counted().empty()))
    what = slice_text(stated->sm, stated->quota.request);
  else if (capability_.known())
    what = capability_.bound() == Nanos::max()
               ? "another slice"
               : "a slice that answers within " + milliseconds(capability_.bound());
  Reason reason = shortage(plan_, predictor_, what, capability_.memory());
  reason.text.insert(0, uncovered_text(gap));
  reason.numbers.insert(reason.numbers.begin(), demand.begin(), demand.end());
  return reason;
}

}  // namespace

std::span<const Setting<HasGpuSettings>> HasGpuSettings::settings() {
  using S = HasGpuSettings;
  static constexpr Setting<S> kAll[] = {
      {"alpha", &S::alpha, 0.05, 1, "part of the capacity above which more is taken"},
      {"beta", &S::beta, 0, 0.95, "part of the capacity below which some is given back"},
      {"quota_step", &S::quota_step, 1, 1000, "by which quotas change"},
      {"min_quota", &S::min_quota, 1, 1000, "least quota of an instance"},
      {"cooldown", &S::cooldown, 0, 3600, "between two times that a function gives back"},
      {"min_rate", &S::min_rate, 0, 1000, "inferences a second that always stay possible"},
      {"slo_fraction", &S::slo_fraction, 0.05, 1, "of the objective: the longest batch"},
      {"idle_meets_slo", &S::idle_meets_slo, 0, 1, "an idle instance still answers in time"},
      {"borrow", &S::borrow, 0, 1, "an instance may use what its lane leaves idle"},
      {"work_off", &S::work_off, 0, 1, "what waits counts as load"},
      {"slack", &S::slack, 0, 0.5, "gap, as a part of the capacity, that is worth no start"},
      {"outlast_starts", &S::outlast_starts, 0, 1, "none leaves until a start was worth its cost"},
      {"unmeasured", &S::unmeasured, 1, 1000, "request of a model that was never measured"},
  };
  return kAll;
}

std::vector<Action> scale_has_gpu(Turn& turn) {
  const std::vector<Demand> all = demands(turn);
  ClusterPlan plan(turn.snapshot, turn.mine, /*movable=*/true);
  plan.stop_retired(all);
  std::vector<HybridScaler> scalers;
  scalers.reserve(all.size());
  for (const Demand& d : all) scalers.emplace_back(plan, d, turn.predictor, turn.snapshot.now);
  // What some give back, others may take in the same tick.
  for (HybridScaler& s : scalers) s.scale_down();
  for (HybridScaler& s : scalers) s.leave_drained();
  for (HybridScaler& s : scalers) s.scale_up();
  return plan.actions();
}

}  // namespace sluice::policy
