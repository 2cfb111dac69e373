#include "policy/scale/scale_kpa.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "policy/explain.h"
#include "policy/scale/cluster_plan.h"
#include "policy/scale/replicas.h"

namespace sluice::policy {
namespace {

constexpr int64_t kLongestGap = 3;  // seconds that one sample stands for, as the loop's mean does

int whole_seconds(Nanos window) {
  return std::max(1, static_cast<int>(std::lround(seconds(window))));
}

int panic_window(const KpaSettings& s) {
  return whole_seconds(from_seconds(seconds(s.window) * s.panic_window.fraction()));
}

// What is remembered of a revision. Times are seconds; negative: never.
struct State {
  double touched = -1;
  KpaPanic panic;
  bool initialised = false;
  double active = -1, inactive = -1;  // since when
  KpaSamples samples;
  std::vector<std::pair<double, double>> wanted;  // a time and a count; the counts fall
};
constexpr size_t kFixed = 7;  // numbers before the samples

std::vector<double> saved(const State& s) {
  std::vector<double> all = {
      s.touched, s.panic.since, static_cast<double>(s.panic.most),    s.initialised ? 1.0 : 0.0,
      s.active,  s.inactive,    static_cast<double>(s.samples.size())};
  const auto add = [&](double first, double second) { all.insert(all.end(), {first, second}); };
  for (const auto& [second, value] : s.samples) add(static_cast<double>(second), value);
  for (const auto& [time, count] : s.wanted) add(time, count);
  return all;
}

// A time after now is of another boot's clock. A new scaler of several instances panics, so that it
// stops none before it has seen a window.
State restored(const std::vector<double>& n, double now, int ready) {
  State s;
  if (n.size() < kFixed || n[0] > now) {
    if (ready > 1) s.panic = {now, ready};
    return s;
  }
  s.touched = n[0];
  s.panic = {n[1], static_cast<int>(n[2])};
  s.initialised = n[3] != 0;
  s.active = n[4];
  s.inactive = n[5];
  const size_t end = kFixed + 2 * static_cast<size_t>(n[6]);
  for (size_t i = kFixed; i + 1 < n.size(); i += 2) {
    if (i < end)
      s.samples[static_cast<int64_t>(n[i])] = n[i + 1];
    else
      s.wanted.emplace_back(n[i], n[i + 1]);
  }
  return s;
}

double total_target(const Demand& d, const KpaSettings& config) {
  const InferenceSpec& spec = d.inference();
  const double stated = config.target > 0 ? config.target : spec.scale_target;
  if (config.metric_rps) return stated > 0 ? stated : 200;
  const double most = spec.container_concurrency > 0 ? spec.container_concurrency
                                                     : std::max(1, spec.batching.max_size);
  return stated > 0 ? std::min(stated, most) : most;
}

// At zero nothing is measured, as Knative has nothing to scrape then: the first request begins a
// new window.
void take_sample(State& state, double sample, bool at_zero, double now, int window) {
  if (at_zero && sample == 0) return;
  const auto second = static_cast<int64_t>(now);
  int64_t from = second;
  if (!state.samples.empty() && second - state.samples.rbegin()->first <= kLongestGap)
    from = std::min(second, state.samples.rbegin()->first + 1);
  for (; from <= second; ++from) record(state.samples, from, sample, window);
}

// Returns the largest number wanted within the delay.
int delayed(State& state, int count, double now, double delay) {
  auto& wanted = state.wanted;
  std::erase_if(wanted, [&](const auto& w) { return w.first <= now - delay; });
  while (!wanted.empty() && wanted.back().second <= count) wanted.pop_back();
  wanted.emplace_back(now, count);
  return static_cast<int>(wanted.front().second);
}

struct Instances {
  int running = 0, ready = 0;
};

// Returns `count`, or 1 where the last instance may not leave yet: it has to have been active for a
// window, then idle for the grace period.
int hold_last(State& state, const Demand& d, int count, Instances have, Time time) {
  const auto& config = d.settings->as<KpaSettings>();
  const double now = seconds(time.time_since_epoch());
  if (have.running == 0) state.active = -1;
  if (have.ready > 0 && state.active < 0) state.active = now;
  if (count > 0 || have.running == 0) {
    state.inactive = -1;
    return count;
  }
  if (state.active < 0 || now - state.active < seconds(config.window)) return 1;
  if (state.inactive < 0) state.inactive = now;
  const bool over = now - state.inactive >= seconds(config.scale_to_zero_grace) && d.rested(time);
  return over ? 0 : 1;
}

int within_bounds(State& state, const Demand& d, int count, int ready) {
  const int least = d.inference().min_replicas, most = most_replicas(d);
  const int initial = std::min(d.settings->as<KpaSettings>().initial_scale, most);
  if (ready >= initial) state.initialised = true;
  const int from = state.initialised || d.part <= 0 ? least : std::max(least, initial);
  return std::min(std::max(count, from), most);
}

std::string explained(const KpaSettings& s, const KpaMetric& metric, bool panics) {
  char text[160];
  std::snprintf(text, sizeof text, "%.1f %s in %d s, %.1f in %d s; one instance takes %.1f.",
                metric.stable, s.metric_rps ? "inferences/s" : "requests at once",
                whole_seconds(s.window), metric.panic, panic_window(s), metric.target);
  std::string all = text;
  if (panics)
    all += " Panic: none stops for " + counted(whole_seconds(s.window), "second") +
           " after the last burst.";
  return all;
}

Replicas replicas_of(const Demand& d, Instances have, Input& input, Bytes memory) {
  const auto& config = d.settings->as<KpaSettings>();
  const double now = input.now();
  const auto second = static_cast<int64_t>(now);
  const int window = whole_seconds(config.window);
  std::vector<double>& numbers = input.memory.numbers[revision_id(d.function(), d.revision)];
  State state = restored(numbers, now, have.ready);
  const double sample = (config.metric_rps ? d.view->rate : d.view->concurrency) * d.part;
  take_sample(state, sample, have.running == 0, now, window);

  const KpaMetric metric{
      .stable = window_average(state.samples, second, window),
      .panic = window_average(state.samples, second, panic_window(config)),
      .target = std::max(0.01, total_target(d, config) * config.target_utilisation),
      .ready = have.ready,
      .reachable = d.part > 0};
  const int wanted = wanted_instances(config, metric, state.panic, now);
  int count = wanted;
  if (metric.reachable && config.scale_down_delay > Nanos(0))
    count = delayed(state, count, now, seconds(config.scale_down_delay));
  count = within_bounds(state, d, count, have.ready);
  count = hold_last(state, d, count, have, input.snapshot.now);
  state.touched = now;
  numbers = saved(state);
  return {count, count, Slice{kWhole, {kWhole, kWhole}, memory},
          explained(config, metric, state.panic.since >= 0),
          nonzero({{"stable", metric.stable},
                   {"panic", metric.panic},
                   {"target", metric.target},
                   {"wanted", wanted}})};
}

}  // namespace

std::span<const Setting<KpaSettings>> KpaSettings::settings() {
  using S = KpaSettings;
  static constexpr Setting<S> kAll[] = {
      {"metric_rps", &S::metric_rps, 0, 1, "scales by inferences per second, not concurrency"},
      {"target", &S::target, 0, 1e6, "of an instance; 0: scaleTarget, else its most (rps: 200)"},
      {"target_utilisation", &S::target_utilisation, 0.01, 1, "part of the target to keep to"},
      {"window", &S::window, 6, 3600, "the stable window, over which the metric is averaged"},
      {"panic_window", &S::panic_window, 10, 1000, "part of the stable window"},
      {"panic_threshold", &S::panic_threshold, 1.1, 10, "× the ready instances begins a panic"},
      {"max_scale_up_rate", &S::max_scale_up_rate, 1.01, 1e6, "× the ready instances at once"},
      {"max_scale_down_rate", &S::max_scale_down_rate, 1.01, 1e6, "÷ the ready instances at once"},
      {"initial_scale", &S::initial_scale, 0, 1000, "instances until they were ready once"},
      {"activation_scale", &S::activation_scale, 1, 1000, "the fewest instances, unless none"},
      {"scale_down_delay", &S::scale_down_delay, 0, 3600, "for which the largest number counts"},
      {"scale_to_zero_grace", &S::scale_to_zero_grace, 0, 3600, "after an idle stable window"},
  };
  return kAll;
}

void record(KpaSamples& samples, int64_t second, double value, int window) {
  if (!samples.empty()) {
    const int64_t last = samples.rbegin()->first;
    if (second <= last - window) return;
    if (second >= last + window) samples.clear();
  }
  samples[second] = value;
  // One older sample stays: it shows that the seconds after it were seen.
  const int64_t outside = samples.rbegin()->first - window;
  while (samples.size() >= 2 && std::next(samples.begin())->first <= outside)
    samples.erase(samples.begin());
}

double window_average(const KpaSamples& samples, int64_t now, int window) {
  if (samples.empty()) return 0;
  const int64_t last = samples.rbegin()->first, end = std::max(now, last);
  if (end - last >= window) return 0;
  double sum = 0;
  int64_t first = last;
  for (auto s = samples.rbegin(); s != samples.rend() && first - s->first < window; ++s) {
    first = s->first;
    if (first > end - window) sum += s->second;
  }
  const int64_t seen = std::min(last - first + 1, window - (end - last));
  return std::round(sum / static_cast<double>(seen) * 1e6) / 1e6;
}

int wanted_instances(const KpaSettings& s, const KpaMetric& m, KpaPanic& panic, double now) {
  const double ready = std::max(1, m.ready);
  const double up = std::ceil(s.max_scale_up_rate * ready);
  const double down = m.reachable ? std::floor(ready / s.max_scale_down_rate) : 0;
  const auto bounded = [&](double count) {
    double all = std::min(std::max(count, down), up);
    if (count > 0) all = std::max<double>(all, s.activation_scale);
    return static_cast<int>(std::min(all, 1e9));
  };
  const double raw_panic = std::ceil(m.panic / m.target);
  const int by_stable = bounded(std::ceil(m.stable / m.target));
  if (raw_panic / ready >= s.panic_threshold)
    panic.since = now;
  else if (panic.since >= 0 && panic.since + seconds(s.window) < now)
    panic = {};
  if (panic.since < 0) return by_stable;
  panic.most = std::max({panic.most, by_stable, bounded(raw_panic)});
  return panic.most;
}

std::vector<Action> scale_kpa(Input& input) {
  ClusterPlan plan(input, /*movable=*/false);
  for (const Demand& d : plan.demands()) {
    Instances have;
    for (const size_t i : plan.serving(d)) {
      ++have.running;
      have.ready += plan.at(i).instance.state == InstanceState::kReady;
    }
    hold_replicas(plan, d, replicas_of(d, have, input, instance_memory(plan, d)));
  }
  input.memory.forget_before(input.now() - 3600);  // of deleted functions; no window is longer
  return plan.actions();
}

}  // namespace sluice::policy
