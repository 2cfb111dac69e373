#include "policy/scale/scale_infless.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <tuple>

#include "policy/explain.h"
#include "policy/scale/capability.h"
#include "policy/scale/fleet.h"
#include "policy/scale/idle_windows.h"
#include "policy/scale/replicas.h"
#include "policy/scale/shortage.h"
#include "policy/scale/unmeasured.h"

namespace sluice::policy {
namespace {

struct InflessChoice : Choice {
  double least_rate = 0;  // inferences per second that fill its batches in time
};

// One revision, on the plan left by those before it.
class InflessScaler {
 public:
  InflessScaler(ClusterPlan& plan, const Demand& demand, Full& full)
      : plan_(plan),
        demand_(demand),
        config_(demand.settings->as<InflessSettings>()),
        full_(full),
        fleet_(plan, demand),
        idle_(plan.input().snapshot.now - demand.view->last_request) {}
  void scale();

 private:
  std::vector<InflessChoice> configurations() const;
  std::vector<InflessChoice> fallback() const;
  std::vector<InflessChoice> most_efficient_first(double missing);
  const IdleWindows& windows() const;
  double load() const { return demand_.rate(); }
  double missing() const { return load() / config_.load_rate - fleet_.capacity(); }
  bool kept_warm() const;
  double peak() const;
  int least() const;
  bool start(double missing, const std::string& because);
  void scale_up();
  void scale_down();
  void leave_cordoned();
  void stop_all();
  std::string load_text() const { return fleet_.load_text(config_.load_rate); }
  Numbers numbers() const;

  ClusterPlan& plan_;
  const Demand& demand_;
  const InflessSettings& config_;
  Full& full_;
  Fleet fleet_;
  Nanos idle_{0};  // since the last request
  mutable std::optional<IdleWindows> windows_;
  std::optional<std::vector<InflessChoice>> choices_;
};

// The shares are the file's, else those of the profile.
std::vector<InflessChoice> InflessScaler::configurations() const {
  const Nanos slo = demand_.inference().slo.latency;
  const std::optional<Slice>& stated = demand_.spec->slice;
  const Bytes memory = instance_memory(plan_, demand_);
  std::vector<InflessChoice> found;
  for (const Device* type : plan_.types()) {
    const ModelOnDevice model = model_on(demand_.function(), demand_.revision, *type);
    Candidates candidates = plan_.predictor().candidates(model);
    if (stated) candidates.sms = {stated->sm};
    if (demand_.spec->mps == "off") candidates.sms = {kWhole};
    const int most = most_at_once(*demand_.spec, type_of(*type));
    for (const Share sm : widths_on(*type, candidates.sms)) {
      for (const int batch : candidates.batches) {
        if (batch > most) continue;
        const auto p = plan_.predictor().predict(model, {batch, sm, kWhole});
        const double bound = seconds(slo) * (batch > 1 ? config_.slo_fraction : 1);
        if (!p || (slo > Nanos(0) && seconds(cautious(*p)) > bound)) continue;
        const double rest = seconds(slo) - seconds(cautious(*p));
        const double rate = plan_.predictor().throughput(model, {batch, sm, kWhole});
        found.push_back(
            {{type, sm, batch, rate, memory}, batch > 1 && rest > 0 ? batch / rest : 0});
      }
    }
  }
  return found;
}

// For a model that was never measured, or that is never in time.
std::vector<InflessChoice> InflessScaler::fallback() const {
  std::vector<InflessChoice> found;
  for (const Device* type : plan_.types()) {
    const ModelOnDevice model = model_on(demand_.function(), demand_.revision, *type);
    const bool known = !plan_.predictor().candidates(model).batches.empty();
    found.push_back({unsized_choice(plan_, demand_, *type, known)});
    found.back().memory = instance_memory(plan_, demand_);
  }
  return found;
}

std::vector<InflessChoice> InflessScaler::most_efficient_first(double missing) {
  if (!choices_) {
    choices_ = configurations();
    if (choices_->empty()) choices_ = fallback();
  }
  std::vector<InflessChoice> sorted;
  double least_rate = std::numeric_limits<double>::infinity();
  for (const InflessChoice& c : *choices_) least_rate = std::min(least_rate, c.least_rate);
  // If no batch fills in time, the one that needs the least load.
  const double enough = std::max({missing, load(), least_rate});
  for (const InflessChoice& c : *choices_)
    if (c.least_rate <= enough) sorted.push_back(c);
  const auto rank = [&](const InflessChoice& c) {
    const double price = price_of(*c.type, c.sm);
    const double used = missing > 0 ? std::min(c.rate, missing) : c.rate;
    const auto efficiency = std::llround(std::min(used / price, 1e12) * 1000);  // equal is equal
    return std::tuple(-efficiency, price, c.batch, c.type->id);
  };
  std::ranges::sort(sorted, {}, rank);
  return sorted;
}

// An instance is kept for two starts at least: an earlier end would cost more than it frees.
const IdleWindows& InflessScaler::windows() const {
  if (!windows_) {
    const LsthSettings lsth{config_.gamma, config_.head, config_.tail, config_.long_term,
                            config_.short_term};
    windows_ = idle_windows(*demand_.view->arrivals, lsth)
                   .value_or(IdleWindows{Nanos(0), demand_.inference().scale_to_zero_after});
    windows_->keep_alive = std::max(windows_->keep_alive, 2 * demand_.view->start_cost);
  }
  return *windows_;
}

// Returns whether an idle function has an instance now. It is unloaded before the pre-warming
// window only if that frees more time than a start takes.
bool InflessScaler::kept_warm() const {
  if (idle_ >= windows().keep_alive) return false;
  const Nanos start = demand_.view->start_cost;
  const bool unloads = windows().pre_warm > 2 * start;
  return !unloads || idle_ + start >= windows().pre_warm;
}

int InflessScaler::least() const {
  return std::max(demand_.inference().min_replicas, demand_.busy() || kept_warm() ? 1 : 0);
}

// Returns the largest load of the keep-alive window; the history may be shorter, or empty.
double InflessScaler::peak() const {
  const int window = static_cast<int>(std::ceil(seconds(windows().keep_alive)));
  double most = load();
  for (const uint32_t arrivals : demand_.view->arrivals->per_second(window))
    most = std::max(most, arrivals * demand_.part);
  return most;
}

Numbers InflessScaler::numbers() const {
  return fleet_.numbers(
      {{"keep_alive", seconds(windows().keep_alive)}, {"pre_warm", seconds(windows().pre_warm)}});
}

// Returns false if no configuration has a place.
bool InflessScaler::start(double missing, const std::string& because) {
  Share narrowest = kWhole;
  for (const InflessChoice& c : most_efficient_first(missing)) {
    narrowest = std::min(narrowest, c.sm);
    const std::optional<Spot> spot = fleet_.place(c, full_);
    if (!spot) continue;
    fleet_.start(c, *spot,
                 {demand_.busy() || demand_.inference().min_replicas > 0 ? "start" : "pre-warm",
                  because + " Started: " + spot_text(*spot, kWhole) + ", batch " +
                      std::to_string(c.batch) + ".",
                  numbers()});
    return true;
  }
  plan_.unmet(demand_, missing,
              shortage(plan_, because + " Another instance could not be started: ",
                       slice_text(narrowest, kWhole), instance_memory(plan_, demand_), numbers(),
                       &demand_));
  return false;
}

void InflessScaler::scale_up() {
  while (fleet_.count() < most_replicas(demand_)) {
    const bool few = fleet_.count() < least();
    if (!few && missing() <= 1e-9) return;
    std::string because = load_text();
    if (few && least() > 1) because = counted(least(), "instance") + " always stay (minReplicas).";
    if (few && !demand_.busy() && least() == 1)
      because = "The next request is expected from " + seconds_text(windows().pre_warm) +
                " after the last.";
    if (!start(std::max(0.0, missing()), because)) return;
  }
  if (missing() > 1e-9) fleet_.report_most(missing(), config_.load_rate, numbers());
}

// The least efficient one goes first, of equal ones the newest.
void InflessScaler::scale_down() {
  const int stay = std::max(1, least()), most = most_replicas(demand_);
  const double all = fleet_.capacity();
  if (fleet_.started() || fleet_.count() <= stay || !std::isfinite(all)) return;
  const auto needed = [&](double load, double rest) {
    return load > config_.load_rate * rest * (1 + 1e-9);
  };
  double least_rate = all;
  for (const Member& m : fleet_.members()) least_rate = std::min(least_rate, m.rate);
  if (needed(load(), all - least_rate) && fleet_.count() <= most) return;
  const auto rank = [&](const Member& m) {
    const Instance& i = fleet_.instance(m);
    const double price = price_of(plan_.device(plan_.at(m.at)), m.sm);
    return std::tuple(m.rate / price, -i.started.time_since_epoch(), i.id);
  };
  std::ranges::sort(fleet_.members(), {}, rank);
  const double busiest = peak();
  double rest = all;
  int left = fleet_.count();
  for (const Member& m : fleet_.members()) {
    const bool stays = needed(busiest, rest - m.rate) && left <= most;
    if (left <= stay || stays || !plan_.can_change(m.at)) continue;
    rest -= m.rate;
    --left;
    plan_.stop(m.at, {"stop",
                      "At most " + per_second(busiest) + " in the keep-alive window of " +
                          seconds_text(windows().keep_alive) + "; the others' " +
                          carries_text(rest, config_.load_rate),
                      numbers()});
  }
}

// All others must be ready, and carry the load or be as many as may be.
void InflessScaler::leave_cordoned() {
  const int ready = fleet_.ready().count;
  if (ready == 0 || ready < fleet_.count()) return;
  if (load() <= fleet_.capacity() || ready >= most_replicas(demand_))
    fleet_.leave_cordoned(numbers());
}

void InflessScaler::stop_all() {
  const std::string text = idle_ >= windows().keep_alive
                               ? "No request came in the keep-alive window of " +
                                     seconds_text(windows().keep_alive) + "."
                               : "No request is expected before " +
                                     seconds_text(windows().pre_warm) + " after the last.";
  fleet_.stop_all({"idle", text, numbers()});
}

void InflessScaler::scale() {
  if (least() == 0) return stop_all();
  scale_up();
  if (!std::isfinite(fleet_.capacity())) report_unmeasured(plan_, demand_);
  scale_down();
  leave_cordoned();
}

}  // namespace

std::span<const Setting<InflessSettings>> InflessSettings::settings() {
  using S = InflessSettings;
  static constexpr Setting<S> kAll[] = {
      {"load_rate", &S::load_rate, 0.01, 1, "part of an instance's throughput that it is given"},
      {"slo_fraction", &S::slo_fraction, 0.1, 1, "of the objective: the longest batch of several"},
      {"gamma", &S::gamma, 0, 1, "weight of the long term's idle gaps"},
      {"head", &S::head, 0, 1, "percentile of the idle gaps until an instance is loaded again"},
      {"tail", &S::tail, 0, 1, "percentile of the idle gaps until the last one leaves"},
      {"long_term", &S::long_term, 10, 20160, "steps of its histogram: seconds, else minutes"},
      {"short_term", &S::short_term, 10, 20160, "steps of its histogram"},
  };
  return kAll;
}

std::vector<Action> scale_infless(Input& input) {
  ClusterPlan plan(input, /*movable=*/false);
  Full full;
  for (const Demand& d : plan.demands()) InflessScaler(plan, d, full).scale();
  return plan.actions();
}

}  // namespace sluice::policy
