#include "policy/scale/scale_smif.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "policy/explain.h"
#include "policy/scale/capability.h"
#include "policy/scale/fleet.h"
#include "policy/scale/shortage.h"

namespace sluice::policy {
namespace {

constexpr int kSmifRateSeconds = 6;                // seconds over which λ is measured
constexpr Nanos kSmifLatencyWindow = Seconds(10);  // over which latencies are measured
constexpr double kLateByChance = 2;  // answers of that window that may be late beyond what may be
constexpr Nanos kRefutedFor = Seconds(600);  // a kind that was late though it was not busy

struct SmifKind : Choice {
  bool meets = true;  // it alone is in time, as far as is known
};

// The instances of one kind, as measured.
struct SmifGroup {
  double busy = 0, answered = 0;  // sums; in inferences
  double requests = 0, slow = 0;  // answers; those after the objective, waiting apart
  int count = 0;

  double rate() const { return busy > 0 ? answered / busy : 0; }
  // More of its answers are late by themselves than the objective's percentile allows, and not for
  // want of instances.
  bool late(const Objective& slo, double utilisation) const {
    const double chance = kLateByChance / seconds(kSmifLatencyWindow);
    return busy < utilisation * count && slow >= requests * (1 - slo.percentile / 100.0) + chance;
  }
};

// Of a kind as of an instance: its part of the device's price.
double cost_of(const auto& of) {
  return price_of(*of.type, of.sm);
}

// Returns whether it holds a time at most `span` ago. One after now is of another boot's clock.
bool within(const std::vector<double>& at, double now, Nanos span) {
  return !at.empty() && at[0] <= now && now - at[0] < seconds(span);
}

// One revision, on the plan left by those before it.
class SmifScaler {
 public:
  SmifScaler(ClusterPlan& plan, const Demand& demand, Full& full, int& searches)
      : plan_(plan),
        demand_(demand),
        config_(demand.settings->as<SmifSettings>()),
        full_(full),
        searches_(searches),
        fleet_(plan, demand) {
    measure();
  }
  void scale();

 private:
  std::vector<SmifKind> find_kinds() const;
  void measure();
  const std::vector<SmifKind>& kinds();
  std::vector<double>& remembered(const std::string& of = "") const;
  std::vector<double>& refutation_of(const Device* type, Share sm) const;
  bool refuted(const Device* type, Share sm) const;
  SmifGroup& group(const Device* type, Share sm);

  double now() const { return plan_.input().now(); }
  double load() const { return demand_.rate(); }
  double missing() const { return load() - config_.utilisation * fleet_.capacity(); }
  double busiest();
  bool hardly_used() const;
  bool settled() const;
  Nanos late_by() const;
  // Of a kind as of an instance: the place of its type in `deviceTypes`, which comes before its
  // cost.
  size_t preference(const auto& of) const {
    const std::vector<std::string>& types = demand_.spec->device_types;
    if (types.size() < 2) return 0;
    return static_cast<size_t>(std::ranges::find(types, type_of(*of.type).name) - types.begin());
  }
  std::vector<const SmifKind*> cheapest_first(double missing);
  bool start(const std::vector<const SmifKind*>& among, std::string rule,
             const std::string& because);
  void start_faster(const std::string& because);
  void report_full(double missing, const std::string& because);
  void scale_up();
  void scale_down();
  bool search_is_due();
  void move_last();
  void leave_cordoned();
  std::string late_text(Nanos late) const;
  std::string busiest_text();
  Reason why_stopped(const Member& stopped, double rest);
  std::string load_text() const { return fleet_.load_text(config_.utilisation); }
  Numbers numbers() const;

  ClusterPlan& plan_;
  const Demand& demand_;
  const SmifSettings& config_;
  Full& full_;
  int& searches_;  // for a cheaper kind that this decision may still make
  Fleet fleet_;
  std::optional<std::vector<SmifKind>> kinds_;
  std::optional<double> busiest_;
  std::vector<std::pair<std::pair<const Device*, Share>, SmifGroup>> groups_;
};

// The widths are those of the file's slice, else those of the profile. If no width is in time, or
// the model was never measured: the file's slice, else the whole device.
std::vector<SmifKind> SmifScaler::find_kinds() const {
  const Capabilities all(demand_, {.slo_fraction = config_.slo_fraction}, plan_.predictor(),
                         plan_.types());
  const std::optional<Slice>& stated = demand_.spec->slice;
  std::vector<SmifKind> found;
  for (const Device* type : plan_.types()) {
    const Capability& capability = all.on(*type);
    for (const Share sm : widths_on(*type, stated ? std::vector{stated->sm} : capability.widths()))
      if (const auto batch = capability.best_batch(sm, kWhole))
        found.push_back(
            {{type, sm, *batch, capability.of({*batch, sm, kWhole}), capability.memory()}});
  }
  if (!found.empty()) return found;
  for (const Device* type : plan_.types()) {
    const bool known = all.on(*type).known();
    found.push_back({unsized_choice(plan_, demand_, *type, known), /*meets=*/!known});
    found.back().memory = all.on(*type).memory();
  }
  return found;
}

SmifGroup& SmifScaler::group(const Device* type, Share sm) {
  for (auto& [kind, group] : groups_)
    if (kind == std::pair(type, sm)) return group;
  return groups_.emplace_back(std::pair(type, sm), SmifGroup{}).second;
}

// An instance that is hardly used says nothing about its rate. What requests waited for in the
// queue says nothing about their instance's kind: a burst or a cold start makes them wait.
void SmifScaler::measure() {
  constexpr Share kLeastBusy{50};
  for (const Member& member : fleet_.members()) {
    SmifGroup& g = group(member.type, member.sm);
    ++g.count;
    const auto* m = measurements_of(plan_.input().snapshot, fleet_.instance(member).id);
    if (m == nullptr || m->busy < kLeastBusy) continue;
    g.busy += m->busy.fraction();
    g.answered += m->inferences_per_second;
    g.requests += m->answers_per_second;
    g.slow += m->answers_per_second * m->slow;
  }
  for (Member& m : fleet_.members())
    if (const double measured = group(m.type, m.sm).rate(); measured > 0) m.rate = measured;
}

// As predicted, and as measured where there is a group. A group that is late though it is not busy
// refutes that its kind is in time, for a while also after the load has gone.
const std::vector<SmifKind>& SmifScaler::kinds() {
  if (kinds_) return *kinds_;
  kinds_ = find_kinds();
  for (SmifKind& k : *kinds_) {
    for (const auto& [kind, group] : groups_) {
      if (kind != std::pair(k.type, k.sm)) continue;
      if (group.rate() > 0) k.rate = group.rate();
      if (group.late(demand_.inference().slo, config_.utilisation))
        refutation_of(k.type, k.sm) = {now()};
    }
    if (refuted(k.type, k.sm)) k.meets = false;
  }
  return *kinds_;
}

std::vector<double>& SmifScaler::remembered(const std::string& of) const {
  return plan_.input().memory.numbers[revision_id(demand_.function(), demand_.revision) + of];
}

// Returns when that kind was refuted last: one number, or none.
std::vector<double>& SmifScaler::refutation_of(const Device* type, Share sm) const {
  return remembered(" on " + type->model + " " + std::to_string(sm.permille));
}

bool SmifScaler::refuted(const Device* type, Share sm) const {
  return within(refutation_of(type, sm), now(), kRefutedFor);
}

// Returns the largest λ of the window. The history may be shorter, or empty.
double SmifScaler::busiest() {
  if (busiest_) return *busiest_;
  const std::vector<uint32_t> arrivals =
      demand_.view->arrivals->per_second(static_cast<int>(seconds(config_.window)));
  double most = load(), sum = 0;
  for (size_t s = 0; s < arrivals.size(); ++s) {
    sum += arrivals[s];
    if (s >= kSmifRateSeconds) sum -= arrivals[s - kSmifRateSeconds];
    if (s + 1 >= kSmifRateSeconds) most = std::max(most, sum / kSmifRateSeconds * demand_.part);
  }
  busiest_ = most;
  return most;
}

// Returns whether the instances' mean use is known, and below half of what they may have: another
// of their kinds would not make requests faster.
bool SmifScaler::hardly_used() const {
  double busy = 0;
  int measured = 0;
  for (const auto& [kind, group] : groups_)
    if (group.answered > 0) busy += group.busy, measured += group.count;
  return measured > 0 && busy < config_.utilisation / 2 * measured;
}

// Returns whether the latencies are all of the instances that there are now.
bool SmifScaler::settled() const {
  return std::ranges::all_of(fleet_.members(), [&](const Member& m) {
    return fleet_.is_ready(m) && plan_.input().snapshot.now - fleet_.instance(m).started >=
                                     demand_.view->start_cost + kSmifLatencyWindow;
  });
}

// Returns the objective's percentile if it is late, else 0. Where more requests are late or refused
// than the objective allows, it is as late as the objective at least: what is refused has no
// latency.
Nanos SmifScaler::late_by() const {
  const Objective& slo = demand_.inference().slo;
  const LatencyQuantiles& l = demand_.view->latency;
  const Nanos measured = slo.percentile <= 50 ? l.p50 : slo.percentile <= 95 ? l.p95 : l.p99;
  if (slo.latency <= Nanos(0)) return Nanos(0);
  if (measured > slo.latency) return measured;
  return demand_.view->violating ? slo.latency : Nanos(0);
}

Numbers SmifScaler::numbers() const {
  return fleet_.numbers({{"instances", fleet_.count()}});
}

// Returns the kinds that may be started, by what it costs to cover so many inferences per second;
// those that cannot cover them within maxReplicas last, the fastest of them first.
std::vector<const SmifKind*> SmifScaler::cheapest_first(double missing) {
  std::vector<const SmifKind*> sorted;
  const bool any = std::ranges::any_of(kinds(), &SmifKind::meets);
  for (const SmifKind& k : kinds())
    if (k.meets || !any) sorted.push_back(&k);
  const double places = most_replicas(demand_) - static_cast<double>(fleet_.count());
  const auto cost = [&](const SmifKind* k) {
    const double carries = k->rate * config_.utilisation;
    const double count = carries > 0 ? std::max(1.0, std::ceil(missing / carries - 1e-9)) : 1;
    const double beyond = count > places ? count : 0;
    return std::tuple(beyond, preference(*k), count * cost_of(*k), cost_of(*k),
                      k);  // k: of one vector, its position
  };
  std::ranges::sort(sorted, {}, cost);
  return sorted;
}

// Returns false if no kind has a place.
bool SmifScaler::start(const std::vector<const SmifKind*>& among, std::string rule,
                       const std::string& because) {
  for (const SmifKind* k : among) {
    const std::optional<Spot> spot = fleet_.place(*k, full_);
    if (!spot) continue;
    const bool same = std::ranges::any_of(
        fleet_.members(), [&](const Member& m) { return m.type == k->type && m.sm == k->sm; });
    if (rule.empty())
      rule = fleet_.count() == 0 ? "start" : same ? "homogeneous-up" : "heterogeneous-up";
    fleet_.start(
        *k, *spot,
        {std::move(rule), because + " Started: " + spot_text(*spot, kWhole) + ".", numbers()});
    return true;
  }
  return false;
}

void SmifScaler::scale_up() {
  const int least = std::max(demand_.inference().min_replicas, demand_.busy() ? 1 : 0);
  const Nanos late = settled() ? late_by() : Nanos(0);
  bool for_latency =
      late > Nanos(0) && fleet_.count() > 0 && std::ranges::any_of(kinds(), &SmifKind::meets);
  while (fleet_.count() < most_replicas(demand_)) {
    const bool few = fleet_.count() < least;
    const bool short_of = missing() > 1e-9;
    if (!few && !short_of && !for_latency) return;
    std::string because = load_text();
    if (few && least > 1) because = counted(least, "instance") + " always stay (minReplicas).";
    if (!few && !short_of) {
      because = late_text(late);
      if (hardly_used()) return start_faster(because);
    }
    const double gap = std::max(0.0, missing());
    if (!start(cheapest_first(gap), "", because)) return report_full(gap, because);
    for_latency = false;
  }
  if (missing() > 1e-9) fleet_.report_most(missing(), config_.utilisation, numbers());
}

std::string SmifScaler::late_text(Nanos late) const {
  const Nanos objective = demand_.inference().slo.latency;
  return late == objective ? "More requests are late or refused than the objective of " +
                                 milliseconds(objective) + " allows."
                           : "Requests take " + milliseconds(late) + ", the objective is " +
                                 milliseconds(objective) + ".";
}

// Of the kinds that are faster than all that run.
void SmifScaler::start_faster(const std::string& because) {
  double fastest = 0;
  for (const Member& m : fleet_.members()) fastest = std::max(fastest, m.rate);
  std::vector<const SmifKind*> faster = cheapest_first(0);
  std::erase_if(faster, [&](const SmifKind* k) { return !k->meets || k->rate <= 1.1 * fastest; });
  if (!start(faster, "", because))
    plan_.unmet(demand_, 0,
                {"late-though-idle",
                 because + " The instances are hardly used, so another of their kinds would not "
                           "help, and no faster kind is free.",
                 numbers()});
}

void SmifScaler::report_full(double missing, const std::string& because) {
  std::string what = "an instance";
  Bytes memory = 0;
  if (!kinds().empty()) {
    const SmifKind& narrowest = *std::ranges::min_element(kinds(), {}, &SmifKind::sm);
    what = slice_text(narrowest.sm, kWhole);
    memory = narrowest.memory;
  }
  plan_.unmet(demand_, missing,
              shortage(plan_, because + " Another instance could not be started: ", what, memory,
                       numbers(), kinds().empty() ? nullptr : &demand_));
}

// "most 42.0/s in 60 seconds".
std::string SmifScaler::busiest_text() {
  return "most " + per_second(busiest()) + " in " + seconds_text(config_.window);
}

Reason SmifScaler::why_stopped(const Member& stopped, double rest) {
  const bool same = std::ranges::any_of(fleet_.members(), [&](const Member& m) {
    return m.at != stopped.at && m.type == stopped.type && m.sm == stopped.sm;
  });
  return {same ? "homogeneous-down" : "heterogeneous-down",
          "At " + busiest_text() + "; the others' " + carries_text(rest, config_.utilisation),
          numbers()};
}

// One at a time, and none while one starts. A kind that was too slow leaves before all others.
void SmifScaler::scale_down() {
  const int count = fleet_.count();
  if (fleet_.started() || count <= std::max(1, demand_.inference().min_replicas)) return;
  const double all = fleet_.capacity();
  if (!settled() || late_by() > Nanos(0) || !std::isfinite(all)) return;
  const bool too_many = count > most_replicas(demand_);
  const auto expensive = [&](const Member& m) {
    const Instance& i = fleet_.instance(m);
    return std::tuple(refuted(m.type, m.sm), preference(m), cost_of(m), i.started, i.id);
  };
  std::ranges::sort(fleet_.members(), std::ranges::greater(), expensive);
  for (const Member& m : fleet_.members()) {
    const bool needed = busiest() > config_.utilisation * (all - m.rate);
    if ((needed && !too_many) || !plan_.can_change(m.at)) continue;
    plan_.stop(m.at, why_stopped(m, all - m.rate));
    return;
  }
}

// A cheaper kind is searched for once in a window, for some functions a decision, as predictions
// take time.
bool SmifScaler::search_is_due() {
  if (searches_ == 0 || within(remembered(), now(), config_.window)) return false;
  remembered() = {now()};
  --searches_;
  return true;
}

// The last instance: a cheaper kind that carries the load twice over takes its place. The expensive
// one leaves once the other is ready, as in scale_down().
void SmifScaler::move_last() {
  if (fleet_.started() || fleet_.count() != 1 || !settled() || most_replicas(demand_) < 2) return;
  if (!search_is_due()) return;
  const Member& last = fleet_.members().front();
  const std::pair present{preference(last), cost_of(last)};
  std::vector<const SmifKind*> cheaper = cheapest_first(0);
  std::erase_if(cheaper, [&](const SmifKind* k) {
    return !k->meets || k->rate <= 0 || std::pair{preference(*k), cost_of(*k)} >= present ||
           2 * busiest() > config_.utilisation * k->rate;
  });
  start(cheaper, "heterogeneous-down",
        "The last instance can be a cheaper one: at " + busiest_text() + ".");
}

// The others must be ready, and carry the load or be as many as may be. Unmeasured ones are
// trusted.
void SmifScaler::leave_cordoned() {
  const Fleet::Ready ready = fleet_.ready();
  if (ready.count >= std::max(1, demand_.inference().min_replicas) &&
      (!ready.known || ready.sum >= load() || ready.count >= most_replicas(demand_)))
    fleet_.leave_cordoned(numbers());
}

void SmifScaler::scale() {
  if (!demand_.busy() && demand_.inference().min_replicas == 0 &&
      demand_.rested(plan_.input().snapshot.now))
    return fleet_.stop_all(
        {"idle",
         "No request came for " + seconds_text(demand_.inference().scale_to_zero_after) + ".",
         {}});
  scale_up();
  scale_down();
  move_last();
  leave_cordoned();
}

}  // namespace

std::span<const Setting<SmifSettings>> SmifSettings::settings() {
  using S = SmifSettings;
  static constexpr Setting<S> kAll[] = {
      {"utilisation", &S::utilisation, 0.01, 1, "part of the measured rate that may be used"},
      {"slo_fraction", &S::slo_fraction, 0.1, 1, "of the objective: the longest a batch may take"},
      {"window", &S::window, 6, 600, "whose busiest six seconds count before a stop"},
  };
  return kAll;
}

std::vector<Action> scale_smif(Input& input) {
  ClusterPlan plan(input, /*movable=*/false);
  Full full;
  int searches = 32;
  for (const Demand& d : plan.demands()) SmifScaler(plan, d, full, searches).scale();
  input.memory.forget_before(input.now() - 3600);  // of deleted functions, and old
  return plan.actions();
}

}  // namespace sluice::policy
