#include "policy/scale/scale_infless.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "policy/explain.h"
#include "policy/scale/cluster_plan.h"
#include "policy/scale/full.h"
#include "policy/scale/idle_windows.h"
#include "policy/scale/replicas.h"
#include "policy/scale/shortage.h"

namespace sluice::policy {
namespace {

// A configuration that an instance can have.
struct InflessChoice {
  const Device* type = nullptr;
  int batch = 1;
  Share sm;
  double throughput = 0;  // inferences per second; 0: unknown
  double least_rate = 0;  // inferences per second that fill its batches in time
};

// One revision, on the plan left by those before it.
class InflessScaler {
 public:
  InflessScaler(ClusterPlan& plan, const Demand& demand, const Input& input,
                std::span<const Device* const> types, Full& full);
  void scale();

 private:
  struct Held {
    size_t at;  // in the plan
    double price;
    double throughput;
  };

  std::vector<InflessChoice> configurations() const;
  std::vector<InflessChoice> fallback() const;
  std::vector<InflessChoice> most_efficient_first(double missing);
  const IdleWindows& windows() const;
  double load() const { return demand_.rate(); }
  double capacity() const;
  bool busy() const;
  bool kept_warm() const;
  double peak() const;
  int least() const;
  bool start(double missing, const std::string& because);
  void scale_up();
  void scale_down();
  void leave_cordoned();
  void stop_all();
  std::string load_text() const;
  Numbers numbers() const;

  ClusterPlan& plan_;
  const Demand& demand_;
  const Input& input_;
  const InflessSettings& config_;
  std::span<const Device* const> types_;
  Full& full_;
  mutable std::optional<IdleWindows> windows_;
  Nanos idle_{0};  // since the last request
  std::optional<std::vector<InflessChoice>> choices_;
  std::vector<Held> held_;        // not on cordoned devices
  std::vector<size_t> cordoned_;  // the others
  bool started_ = false;
};

InflessScaler::InflessScaler(ClusterPlan& plan, const Demand& demand, const Input& input,
                             std::span<const Device* const> types, Full& full)
    : plan_(plan),
      demand_(demand),
      input_(input),
      config_(demand.settings->as<InflessSettings>()),
      types_(types),
      full_(full),
      idle_(input.snapshot.now - demand.view->last_request) {
  for (const size_t i : plan_.serving(demand_)) {
    if (plan_.on_drained(i)) {
      cordoned_.push_back(i);
      continue;
    }
    const Instance& instance = plan_.at(i).instance;
    const Device& device = plan_.layout(plan_.at(i)).device();
    const Slice& slice = instance.slice();
    held_.push_back(
        {i, price_of(device, slice.sm),
         input_.predictor.throughput(model_on(instance.function, instance.revision, device),
                                     {instance.batch, slice.sm, slice.quota.request})});
  }
}

// The shares are the file's, else those of the profile.
std::vector<InflessChoice> InflessScaler::configurations() const {
  const Nanos slo = demand_.inference().slo.latency;
  const std::optional<Slice>& stated = demand_.spec->slice;
  const int most = std::max(1, demand_.inference().batching.max_size);
  std::vector<InflessChoice> found;
  for (const Device* type : types_) {
    const ModelOnDevice model = model_on(demand_.function(), demand_.revision, *type);
    Candidates candidates = input_.predictor.candidates(model);
    if (stated) candidates.sms = {stated->sm};
    Share last = kNone;
    for (const Share width : candidates.sms) {
      const Share sm = std::min(round_up(width, type->sm_quantum), kWhole);
      if (std::exchange(last, sm) == sm) continue;
      for (const int batch : candidates.batches) {
        if (batch > most) continue;
        const auto p = input_.predictor.predict(model, {batch, sm, kWhole});
        const double bound = seconds(slo) * (batch > 1 ? config_.slo_fraction : 1);
        if (!p || (slo > Nanos(0) && seconds(cautious(*p)) > bound)) continue;
        const double rest = seconds(slo) - seconds(cautious(*p));
        found.push_back({type, batch, sm, input_.predictor.throughput(model, {batch, sm, kWhole}),
                         batch > 1 && rest > 0 ? batch / rest : 0});
      }
    }
  }
  return found;
}

// For a model that was never measured, or that is never in time.
std::vector<InflessChoice> InflessScaler::fallback() const {
  std::vector<InflessChoice> found;
  for (const Device* type : types_) {
    const ModelOnDevice model = model_on(demand_.function(), demand_.revision, *type);
    const Share share = demand_.spec->slice ? demand_.spec->slice->sm : kWhole;
    const Share sm = std::min(round_up(share, type->sm_quantum), kWhole);
    const bool known = !input_.predictor.candidates(model).batches.empty();
    const int batch = known ? 1 : std::max(1, demand_.inference().batching.max_size);
    found.push_back({type, batch, sm, input_.predictor.throughput(model, {batch, sm, kWhole}), 0});
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
    const double used = missing > 0 ? std::min(c.throughput, missing) : c.throughput;
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

// Returns infinity while the throughput of an instance is unknown.
double InflessScaler::capacity() const {
  double sum = 0;
  for (const Held& h : held_) {
    if (h.throughput <= 0) return std::numeric_limits<double>::infinity();
    sum += h.throughput;
  }
  return sum;
}

bool InflessScaler::busy() const {
  return load() > 0 || demand_.view->queued > 0 || demand_.view->in_flight > 0;
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
  return std::max(demand_.inference().min_replicas, busy() || kept_warm() ? 1 : 0);
}

// Returns the largest load of the keep-alive window; the history may be shorter, or empty.
double InflessScaler::peak() const {
  const int window = static_cast<int>(std::ceil(seconds(windows().keep_alive)));
  double most = load();
  for (const uint32_t arrivals : demand_.view->arrivals->per_second(window))
    most = std::max(most, arrivals * demand_.part);
  return most;
}

// "42.0/s; 50.0/s at 80 % carry 40.0/s."
std::string InflessScaler::load_text() const {
  const double all = capacity();
  if (held_.empty()) return per_second(load()) + " and no instance.";
  if (!std::isfinite(all)) return per_second(load()) + "; what an instance carries is not known.";
  return per_second(load()) + "; " + per_second(all) + " at " + percent(config_.load_rate) +
         " carry " + per_second(all * config_.load_rate) + ".";
}

Numbers InflessScaler::numbers() const {
  const double all = capacity();
  return nonzero({{"rate", load()},
                  {"capacity", std::isfinite(all) ? all : 0},
                  {"keep_alive", seconds(windows().keep_alive)},
                  {"pre_warm", seconds(windows().pre_warm)}});
}

// Returns false if no configuration has a place.
bool InflessScaler::start(double missing, const std::string& because) {
  Layouts& layouts = plan_.layouts();
  const Bytes memory = instance_memory(demand_, input_.predictor, types_);
  const std::vector<InflessChoice> choices = most_efficient_first(missing);
  for (const InflessChoice& c : choices) {
    const std::vector<Spot> spots =
        full_.place(layouts, {demand_.view, c.sm, {kWhole, kWhole}, memory, 1, c.type});
    if (spots.empty()) continue;
    const Spot& spot = spots.front();
    plan_.start(demand_, spot, {kWhole, kWhole}, memory, c.batch,
                {busy() || demand_.inference().min_replicas > 0 ? "start" : "pre-warm",
                 because + " Started: " + slice_text(spot.opening.sm, kWhole) + " on " +
                     spot.device->device().id + ", batch " + std::to_string(c.batch) + ".",
                 numbers()});
    held_.push_back({plan_.serving(demand_).back(), price_of(*c.type, c.sm), c.throughput});
    return started_ = true;
  }
  Share least = kWhole;
  for (const InflessChoice& c : choices) least = std::min(least, c.sm);
  Reason reason = shortage(plan_, input_.predictor, slice_text(least, kWhole), memory);
  reason.text.insert(0, because + " Another instance could not be started: ");
  const Numbers own = numbers();
  reason.numbers.insert(reason.numbers.begin(), own.begin(), own.end());
  plan_.unmet(demand_, missing, std::move(reason));
  return false;
}

void InflessScaler::scale_up() {
  const int most = most_replicas(demand_);
  while (static_cast<int>(held_.size()) < most) {
    const double missing = std::max(0.0, load() / config_.load_rate - capacity());
    const bool few = static_cast<int>(held_.size()) < least();
    if (!few && missing <= 1e-9) return;
    std::string because = load_text();
    if (few && least() > 1) because = counted(least(), "instance") + " always stay (minReplicas).";
    if (few && !busy() && least() == 1)
      because = "The next request is expected from " +
                counted(static_cast<int>(seconds(windows().pre_warm)), "second") +
                " after the last.";
    if (!start(missing, because)) return;
  }
  if (const double missing = load() / config_.load_rate - capacity(); missing > 1e-9)
    plan_.unmet(demand_, missing,
                {"max-replicas", load_text() + " maxReplicas allows " + std::to_string(most) + ".",
                 numbers()});
}

// The least efficient one goes first, of equal ones the newest.
void InflessScaler::scale_down() {
  const int count = static_cast<int>(held_.size());
  const double all = capacity();
  if (started_ || count <= std::max(1, least()) || !std::isfinite(all)) return;
  const auto rank = [&](const Held& h) {
    const Instance& i = plan_.at(h.at).instance;
    return std::tuple(h.throughput / h.price, -i.started.time_since_epoch(), i.id);
  };
  double least_throughput = all;
  for (const Held& h : held_) least_throughput = std::min(least_throughput, h.throughput);
  const bool too_few = load() > config_.load_rate * (all - least_throughput) * (1 + 1e-9);
  if (too_few && count <= most_replicas(demand_)) return;
  const double most = peak();
  double rest = all;
  std::ranges::sort(held_, {}, rank);
  int left = count;
  for (const Held& h : held_) {
    const bool needed = most > config_.load_rate * (rest - h.throughput) * (1 + 1e-9);
    const bool too_many = left > most_replicas(demand_);
    if (left <= std::max(1, least()) || (needed && !too_many) || !plan_.can_change(h.at)) continue;
    rest -= h.throughput;
    --left;
    plan_.stop(h.at,
               {"stop",
                "At most " + per_second(most) + " in the keep-alive window of " +
                    counted(static_cast<int>(seconds(windows().keep_alive)), "second") +
                    "; the others' " + per_second(rest) + " at " + percent(config_.load_rate) +
                    " carry " + per_second(rest * config_.load_rate) + ".",
                numbers()});
  }
}

// Make before break: the others must be ready, and carry the load or be as many as may be.
void InflessScaler::leave_cordoned() {
  const auto ready = std::ranges::count_if(
      held_, [&](const Held& h) { return plan_.at(h.at).instance.state == InstanceState::kReady; });
  if (ready == 0 || ready < std::ssize(held_)) return;
  if (load() > capacity() && ready < most_replicas(demand_)) return;
  for (const size_t i : cordoned_)
    plan_.stop(i, {"replaced",
                   "Device " + plan_.at(i).instance.device() +
                       " is cordoned. Others are ready in its place.",
                   numbers()});
}

void InflessScaler::stop_all() {
  const bool over = idle_ >= windows().keep_alive;
  const Nanos window = over ? windows().keep_alive : windows().pre_warm;
  for (const size_t i : plan_.serving(demand_))
    plan_.stop(
        i, {"idle",
            over ? "No request came in the keep-alive window of " +
                       counted(static_cast<int>(seconds(window)), "second") + "."
                 : "No request is expected before " +
                       counted(static_cast<int>(seconds(window)), "second") + " after the last.",
            numbers()});
}

void InflessScaler::scale() {
  if (least() == 0) return stop_all();
  scale_up();
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
  const std::vector<Demand> all = demands(input);
  ClusterPlan plan(input, /*movable=*/false);
  plan.stop_retired(all);
  const std::vector<const Device*> types = one_of_each_type(input.snapshot.devices);
  Full full;
  for (const Demand& d : all) InflessScaler(plan, d, input, types, full).scale();
  return plan.actions();
}

}  // namespace sluice::policy
