#include "policy/scale/scale_smif.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "policy/explain.h"
#include "policy/scale/capability.h"
#include "policy/scale/cluster_plan.h"
#include "policy/scale/full.h"
#include "policy/scale/replicas.h"
#include "policy/scale/shortage.h"

namespace sluice::policy {
namespace {

constexpr int kSmifRateSeconds = 6;                // seconds over which λ is measured
constexpr Nanos kSmifLatencyWindow = Seconds(10);  // over which latencies are measured
constexpr Nanos kRefutedFor = Seconds(600);        // a kind that was late though it was not busy

// A type of device and a share of it.
struct SmifKind {
  const Device* type = nullptr;
  Share sm;
  int batch = 1;
  double rate = 0;  // μ as predicted; 0: unknown
  double cost = 0;  // of an instance: its part of the device's price
  Bytes memory = 0;
  bool meets = true;  // it alone is in time, as far as is known
};

// The instances of one kind, as measured.
struct SmifGroup {
  double busy = 0, answered = 0, waited = 0;  // sums; waited: latency × inferences
  int count = 0;

  double rate() const { return busy > 0 ? answered / busy : 0; }
  // It is late by itself, and not for want of instances.
  bool late(Nanos objective, double utilisation) const {
    return objective > Nanos(0) && answered > 0 && busy < utilisation * count &&
           waited / answered > seconds(objective);
  }
};

// One revision, on the plan left by those before it.
class SmifScaler {
 public:
  SmifScaler(ClusterPlan& plan, const Demand& demand, Input& input,
             std::span<const Device* const> types, Full& full, int& searches);
  void scale();

 private:
  struct Held {
    size_t at;  // in the plan
    const Device* type;
    Share sm;
    double rate, cost;
  };

  std::vector<SmifKind> find_kinds() const;
  void measure();
  const std::vector<SmifKind>& kinds();
  std::vector<double>& refutation_of(const Device* type, Share sm);
  bool refuted(const Device* type, Share sm);
  const Device* type_of_device(const Device& device) const;
  SmifGroup* group(const Device* type, Share sm);

  double load() const { return demand_.rate(); }
  double busiest();
  double capacity() const;
  bool hardly_used() const;
  bool idle() const;
  bool settled() const;
  Nanos late_by() const;
  std::vector<const SmifKind*> cheapest_first(double missing);
  bool start(const std::vector<const SmifKind*>& among, std::string rule,
             const std::string& because);
  void start_faster(const std::string& because);
  void report_full(double missing, const std::string& because);
  void report_most(double missing);
  void scale_up();
  void scale_down();
  bool search_is_due();
  void move_last();
  void leave_cordoned();
  void stop_all();
  Reason why_stopped(const Held& held, double rest);
  std::string load_text() const;
  Numbers numbers() const;

  ClusterPlan& plan_;
  const Demand& demand_;
  Input& input_;
  const SmifSettings& config_;
  std::span<const Device* const> types_;
  Full& full_;
  int& searches_;  // for a cheaper kind that this decision may still make
  std::optional<std::vector<SmifKind>> kinds_;
  std::optional<double> busiest_;
  std::vector<std::pair<std::pair<const Device*, Share>, SmifGroup>> groups_;
  std::vector<Held> held_;        // not on cordoned devices
  std::vector<size_t> cordoned_;  // the others
  bool started_ = false;
};

SmifScaler::SmifScaler(ClusterPlan& plan, const Demand& demand, Input& input,
                       std::span<const Device* const> types, Full& full, int& searches)
    : plan_(plan),
      demand_(demand),
      input_(input),
      config_(demand.settings->as<SmifSettings>()),
      types_(types),
      full_(full),
      searches_(searches) {
  measure();
}

// The widths are those of the file's slice, else those of the profile. If no width is in time, or
// the model was never measured: the file's slice, else the whole device.
std::vector<SmifKind> SmifScaler::find_kinds() const {
  const Capabilities all(demand_, {.slo_fraction = config_.slo_fraction}, input_.predictor, types_);
  const std::optional<Slice>& stated = demand_.spec->slice;
  std::vector<SmifKind> found;
  for (const Device* type : types_) {
    const Capability& capability = all.on(*type);
    std::vector<Share> widths = capability.widths();
    if (stated) widths = {stated->sm};
    for (const Share width : widths) {
      const Share sm = std::min(round_up(width, type->sm_quantum), kWhole);
      const auto batch = capability.best_batch(sm, kWhole);
      if (!batch || (!found.empty() && found.back().type == type && found.back().sm == sm))
        continue;
      found.push_back({type, sm, *batch, capability.of({*batch, sm, kWhole}), price_of(*type, sm),
                       capability.memory()});
    }
  }
  if (!found.empty()) return found;
  for (const Device* type : types_) {
    const Share sm = std::min(round_up(stated ? stated->sm : kWhole, type->sm_quantum), kWhole);
    const bool known = all.on(*type).known();
    const int batch = known ? 1 : std::max(1, demand_.inference().batching.max_size);
    const ModelOnDevice model = model_on(demand_.function(), demand_.revision, *type);
    found.push_back({type, sm, batch, input_.predictor.throughput(model, {batch, sm, kWhole}),
                     price_of(*type, sm), all.on(*type).memory(), /*meets=*/!known});
  }
  return found;
}

const Device* SmifScaler::type_of_device(const Device& device) const {
  const auto found = std::ranges::find_if(types_, [&](auto* t) { return alike(*t, device); });
  return found != types_.end() ? *found : nullptr;
}

SmifGroup* SmifScaler::group(const Device* type, Share sm) {
  for (auto& [kind, group] : groups_)
    if (kind == std::pair(type, sm)) return &group;
  return &groups_.emplace_back(std::pair(type, sm), SmifGroup{}).second;
}

// An instance that is hardly used says nothing about its rate.
void SmifScaler::measure() {
  constexpr Share kLeastBusy{50};
  for (const size_t i : plan_.serving(demand_)) {
    if (plan_.on_drained(i)) {
      cordoned_.push_back(i);
      continue;
    }
    const Instance& instance = plan_.at(i).instance;
    const Device& device = plan_.layout(plan_.at(i)).device();
    const Slice& slice = instance.slice();
    const double predicted =
        input_.predictor.throughput(model_on(instance.function, instance.revision, device),
                                    {instance.batch, slice.sm, slice.quota.request});
    const Device* type = type_of_device(device);
    held_.push_back({i, type, slice.sm, predicted, price_of(*type, slice.sm)});
    const InstanceMeasurements* m = measurements_of(input_.snapshot, instance.id);
    SmifGroup& g = *group(type, slice.sm);
    ++g.count;
    if (m == nullptr || m->busy < kLeastBusy) continue;
    g.busy += m->busy.fraction();
    g.answered += m->inferences_per_second;
    g.waited += m->inferences_per_second * seconds(m->latency);
  }
  for (Held& h : held_)
    if (const double measured = group(h.type, h.sm)->rate(); measured > 0) h.rate = measured;
}

// As predicted, and as measured where there is a group. A group that is late though it is not busy
// refutes that its kind is in time, for a while also after the load has gone.
const std::vector<SmifKind>& SmifScaler::kinds() {
  if (kinds_) return *kinds_;
  kinds_ = find_kinds();
  const double now = input_.now();
  for (SmifKind& k : *kinds_) {
    for (const auto& [kind, group] : groups_) {
      if (kind != std::pair(k.type, k.sm)) continue;
      if (group.rate() > 0) k.rate = group.rate();
      if (group.late(demand_.inference().slo.latency, config_.utilisation))
        refutation_of(k.type, k.sm) = {now};
    }
    if (refuted(k.type, k.sm)) k.meets = false;
  }
  return *kinds_;
}

// Returns when that kind was refuted last: one number, or none.
std::vector<double>& SmifScaler::refutation_of(const Device* type, Share sm) {
  return input_.memory.numbers[revision_id(demand_.function(), demand_.revision) + " on " +
                               type->model + " " + std::to_string(sm.permille)];
}

bool SmifScaler::refuted(const Device* type, Share sm) {
  const double now = input_.now();
  const std::vector<double>& at = refutation_of(type, sm);
  // A time after now is of another boot's clock.
  return !at.empty() && at[0] <= now && now - at[0] < seconds(kRefutedFor);
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

// Returns infinity while the rate of an instance is unknown.
double SmifScaler::capacity() const {
  double sum = 0;
  for (const Held& h : held_) {
    if (h.rate <= 0) return std::numeric_limits<double>::infinity();
    sum += h.rate;
  }
  return sum;
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

bool SmifScaler::idle() const {
  const FunctionView& v = *demand_.view;
  return demand_.inference().min_replicas == 0 && load() <= 0 && v.queued == 0 &&
         v.in_flight == 0 &&
         input_.snapshot.now - v.last_request >= demand_.inference().scale_to_zero_after;
}

// Returns whether the latencies are all of the instances that there are now.
bool SmifScaler::settled() const {
  return std::ranges::all_of(held_, [&](const Held& h) {
    const Instance& i = plan_.at(h.at).instance;
    return i.state == InstanceState::kReady &&
           input_.snapshot.now - i.started >= demand_.view->start_cost + kSmifLatencyWindow;
  });
}

// Returns the objective's percentile if it is late, else 0. Where more requests are late or refused
// than the objective allows, it is as late as the objective at least: what is refused has no latency.
Nanos SmifScaler::late_by() const {
  const Objective& slo = demand_.inference().slo;
  const LatencyQuantiles& l = demand_.view->latency;
  const Nanos measured = slo.percentile <= 50 ? l.p50 : slo.percentile <= 95 ? l.p95 : l.p99;
  if (slo.latency <= Nanos(0)) return Nanos(0);
  if (measured > slo.latency) return measured;
  return demand_.view->violating ? slo.latency : Nanos(0);
}

// "42.0/s; 50.0/s at 80 % carry 40.0/s."
std::string SmifScaler::load_text() const {
  const double all = capacity();
  if (held_.empty()) return per_second(load()) + " and no instance.";
  if (!std::isfinite(all)) return per_second(load()) + "; what an instance carries is not known.";
  return per_second(load()) + "; " + per_second(all) + " at " + percent(config_.utilisation) +
         " carry " + per_second(all * config_.utilisation) + ".";
}

Numbers SmifScaler::numbers() const {
  const double all = capacity();
  return nonzero({{"rate", load()},
                  {"capacity", std::isfinite(all) ? all : 0},
                  {"instances", static_cast<double>(held_.size())}});
}

// Returns the kinds that may be started, by what it costs to cover so many inferences per second;
// those that cannot cover them within maxReplicas last, the fastest of them first.
std::vector<const SmifKind*> SmifScaler::cheapest_first(double missing) {
  std::vector<const SmifKind*> sorted;
  const bool any = std::ranges::any_of(kinds(), &SmifKind::meets);
  for (const SmifKind& k : kinds())
    if (k.meets || !any) sorted.push_back(&k);
  const double places = most_replicas(demand_) - static_cast<double>(held_.size());
  const auto cost = [&](const SmifKind* k) {
    const double carries = k->rate * config_.utilisation;
    const double count = carries > 0 ? std::max(1.0, std::ceil(missing / carries - 1e-9)) : 1;
    const double beyond = count > places ? count : 0;
    return std::tuple(beyond, count * k->cost, k->cost, k);  // of one vector, so k is its position
  };
  std::ranges::sort(sorted, {}, cost);
  return sorted;
}

// Returns false if no kind has a place.
bool SmifScaler::start(const std::vector<const SmifKind*>& among, std::string rule,
                       const std::string& because) {
  Layouts& layouts = plan_.layouts();
  for (const SmifKind* k : among) {
    const std::vector<Spot> spots =
        full_.place(layouts, {demand_.view, k->sm, {kWhole, kWhole}, k->memory, 1, k->type});
    if (spots.empty()) continue;
    const bool same = std::ranges::any_of(
        held_, [&](const Held& h) { return h.type == k->type && h.sm == k->sm; });
    if (rule.empty()) rule = held_.empty() ? "start" : same ? "homogeneous-up" : "heterogeneous-up";
    const Spot& spot = spots.front();
    plan_.start(demand_, spot, {kWhole, kWhole}, k->memory, k->batch,
                {std::move(rule),
                 because + " Started: " + slice_text(spot.opening.sm, kWhole) + " on " +
                     spot.device->device().id + ".",
                 numbers()});
    const std::vector<size_t> serving = plan_.serving(demand_);
    held_.push_back({serving.back(), k->type, k->sm, k->rate, k->cost});
    return started_ = true;
  }
  return false;
}

void SmifScaler::scale_up() {
  const bool some = load() > 0 || demand_.view->queued > 0 || demand_.view->in_flight > 0;
  const int least = std::max(demand_.inference().min_replicas, some ? 1 : 0);
  const int most = most_replicas(demand_);
  const Nanos late = settled() ? late_by() : Nanos(0);
  bool for_latency =
      late > Nanos(0) && !held_.empty() && std::ranges::any_of(kinds(), &SmifKind::meets);
  while (static_cast<int>(held_.size()) < most) {
    const double missing = load() - config_.utilisation * capacity();
    const bool few = static_cast<int>(held_.size()) < least;
    const bool short_of = missing > 1e-9;
    if (!few && !short_of && !for_latency) return;
    std::string because = load_text();
    if (few && least > 1) because = counted(least, "instance") + " always stay (minReplicas).";
    if (!few && !short_of) {
      const Nanos objective = demand_.inference().slo.latency;
      because = late == objective ? "More requests are late or refused than the objective of " +
                                        milliseconds(objective) + " allows."
                                  : "Requests take " + milliseconds(late) + ", the objective is " +
                                        milliseconds(objective) + ".";
      if (hardly_used()) return start_faster(because);
    }
    if (!start(cheapest_first(std::max(0.0, missing)), "", because))
      return report_full(std::max(0.0, missing), because);
    for_latency = false;
  }
  if (const double missing = load() - config_.utilisation * capacity(); missing > 1e-9)
    report_most(missing);
}

// Of the kinds that are faster than all that run.
void SmifScaler::start_faster(const std::string& because) {
  double fastest = 0;
  for (const Held& h : held_) fastest = std::max(fastest, h.rate);
  std::vector<const SmifKind*> faster = cheapest_first(0);
  std::erase_if(faster, [&](const SmifKind* k) { return !k->meets || k->rate <= 1.1 * fastest; });
  if (!start(faster, "", because))
    plan_.unmet(demand_, 0,
                {"late-though-idle",
                 because + " The instances are hardly used, so another of their kinds would not "
                           "help, and no faster kind is free.",
                 numbers()});
}

void SmifScaler::report_most(double missing) {
  plan_.unmet(demand_, missing,
              {"max-replicas",
               load_text() + " maxReplicas allows " + std::to_string(most_replicas(demand_)) + ".",
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
  Reason reason = shortage(plan_, input_.predictor, what, memory);
  reason.text.insert(0, because + " Another instance could not be started: ");
  const Numbers own = numbers();
  reason.numbers.insert(reason.numbers.begin(), own.begin(), own.end());
  plan_.unmet(demand_, missing, std::move(reason));
}

Reason SmifScaler::why_stopped(const Held& held, double rest) {
  const bool same = std::ranges::any_of(held_, [&](const Held& h) {
    return h.at != held.at && h.type == held.type && h.sm == held.sm;
  });
  return {same ? "homogeneous-down" : "heterogeneous-down",
          "At most " + per_second(busiest()) + " in " +
              counted(static_cast<int>(seconds(config_.window)), "second") + "; the others' " +
              per_second(rest) + " at " + percent(config_.utilisation) + " carry " +
              per_second(rest * config_.utilisation) + ".",
          numbers()};
}

// One at a time, and none while one starts. A kind that was too slow leaves before all others.
void SmifScaler::scale_down() {
  const int count = static_cast<int>(held_.size());
  if (started_ || count <= std::max(1, demand_.inference().min_replicas)) return;
  const double all = capacity();
  if (!settled() || late_by() > Nanos(0) || !std::isfinite(all)) return;
  const bool too_many = count > most_replicas(demand_);
  const auto expensive = [&](const Held& h) {
    const Instance& i = plan_.at(h.at).instance;
    return std::tuple(refuted(h.type, h.sm), h.cost, i.started, i.id);
  };
  std::ranges::sort(held_, std::ranges::greater(), expensive);
  for (const Held& h : held_) {
    const bool needed = busiest() > config_.utilisation * (all - h.rate);
    if ((needed && !too_many) || !plan_.can_change(h.at)) continue;
    plan_.stop(h.at, why_stopped(h, all - h.rate));
    return;
  }
}

// A cheaper kind is searched for once in a window, for some functions a decision, as predictions take
// time.
bool SmifScaler::search_is_due() {
  if (searches_ == 0) return false;
  const double now = input_.now();
  std::vector<double>& searched =
      input_.memory.numbers[revision_id(demand_.function(), demand_.revision)];
  // A time after now is of another boot's clock.
  if (!searched.empty() && searched[0] <= now && now - searched[0] < seconds(config_.window))
    return false;
  searched = {now};
  --searches_;
  return true;
}

// The last instance: a cheaper kind that carries the load twice over takes its place. The expensive
// one leaves once the other is ready, as in scale_down().
void SmifScaler::move_last() {
  if (started_ || held_.size() != 1 || !settled() || most_replicas(demand_) < 2) return;
  if (!search_is_due()) return;
  const Held& last = held_.front();
  std::vector<const SmifKind*> cheaper = cheapest_first(0);
  std::erase_if(cheaper, [&](const SmifKind* k) {
    return !k->meets || k->rate <= 0 || k->cost >= last.cost ||
           2 * busiest() > config_.utilisation * k->rate;
  });
  start(cheaper, "heterogeneous-down",
        "The last instance can be a cheaper one: at most " + per_second(busiest()) + " in " +
            counted(static_cast<int>(seconds(config_.window)), "second") + ".");
}

// Make before break: the others must be ready, and carry the load or be as many as may be.
void SmifScaler::leave_cordoned() {
  double ready = 0;
  int count = 0;
  for (const Held& h : held_) {
    if (plan_.at(h.at).instance.state != InstanceState::kReady) continue;
    if (h.rate <= 0) ready = std::numeric_limits<double>::infinity();  // unmeasured: trusted
    ready += h.rate;
    ++count;
  }
  const bool enough = count >= std::max(1, demand_.inference().min_replicas) &&
                      (ready >= load() || count >= most_replicas(demand_));
  if (!enough) return;
  for (const size_t i : cordoned_)
    plan_.stop(i, {"replaced",
                   "Device " + plan_.at(i).instance.device() +
                       " is cordoned. Others are ready in its place.",
                   numbers()});
}

void SmifScaler::stop_all() {
  for (const size_t i : plan_.serving(demand_))
    plan_.stop(i, {"idle",
                   "No request came for " +
                       counted(static_cast<int>(seconds(demand_.inference().scale_to_zero_after)),
                               "second") +
                       ".",
                   {}});
}

void SmifScaler::scale() {
  if (idle()) return stop_all();
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
  const std::vector<Demand> all = demands(input);
  ClusterPlan plan(input, /*movable=*/false);
  plan.stop_retired(all);
  const std::vector<const Device*> types = one_of_each_type(input.snapshot.devices);
  Full full;
  int searches = 32;
  for (const Demand& d : all) SmifScaler(plan, d, input, types, full, searches).scale();
  input.memory.forget_before(input.now() - 3600);  // of deleted functions, and old
  return plan.actions();
}

}  // namespace sluice::policy
