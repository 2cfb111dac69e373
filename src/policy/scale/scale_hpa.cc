#include "policy/scale/scale_hpa.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "policy/explain.h"
#include "policy/scale/cluster_plan.h"
#include "policy/scale/replicas.h"

namespace sluice::policy {
namespace {

// Pairs of a time and the number wanted then, oldest first.
using Wanted = std::vector<double>;
constexpr double kForgotten = 3600;  // seconds; no window is longer
constexpr double kSync = 15;         // seconds between two counts, as Kubernetes has it

void remember(Wanted& wanted, double now, int count) {
  wanted.push_back(now);
  wanted.push_back(count);
}

// Drops entries before the window, or after now (from another boot's clock). However short the
// window, a count stands until the next one.
void drop_old(Wanted& wanted, double now, const HpaSettings& config) {
  const double oldest = now - std::max(seconds(config.stabilization), kSync + 1);
  while (wanted.size() >= 2 && (wanted[0] < oldest || wanted[0] > now))
    wanted.erase(wanted.begin(), wanted.begin() + 2);
}

bool due(const Wanted& wanted, double now) {
  constexpr double kEarly = 0.1;
  return wanted.empty() || now - wanted[wanted.size() - 2] >= kSync - kEarly;
}

int largest(const Wanted& wanted) {
  double most = 0;
  for (size_t i = 1; i < wanted.size(); i += 2) most = std::max(most, wanted[i]);
  return static_cast<int>(most);
}

// A function's running instances.
struct Running {
  int revision = 0;  // instances of the revision in question
  int most = 0;      // of the revision with the most: a new one may grow from there at once
};

// Returns the instances by the formula, before the window and the function's bounds. A hundredth of
// an instance is the measurement's noise.
int by_ratio(double concurrency, Running running, double target, double tolerance) {
  const int current = std::max(running.revision, 1), most = std::max(running.most, 1);
  if (std::abs(concurrency / (current * target) - 1) <= tolerance) return current;
  const double wanted = std::ceil(concurrency / target - 0.01);
  return static_cast<int>(std::min<double>(wanted, std::max(2 * most, most + 4)));
}

std::string one_decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

Replicas replicas_of(const ClusterPlan& plan, const Demand& d, Running running) {
  const Input& input = plan.input();
  const auto& config = d.settings->as<HpaSettings>();
  const double target = target_concurrency(d.inference(), config.target_utilisation);
  const double concurrency = d.view->concurrency * d.part;
  const int wanted = by_ratio(concurrency, running, target, config.tolerance);

  const double now = input.now();
  Wanted& window = input.memory.numbers[revision_id(d.function(), d.revision)];
  const bool count_now = due(window, now);
  drop_old(window, now, config);
  if (window.empty()) remember(window, now, running.revision);
  if (count_now) remember(window, now, wanted);
  const int held = largest(window);
  const int count = std::clamp(held, least_replicas(d), most_replicas(d));

  std::string text = one_decimal(concurrency);
  text += " requests at once; one instance takes ";
  text += one_decimal(target) + ".";
  if (held > wanted)
    text += " " + std::to_string(held) + " were wanted in the last " +
            seconds_text(config.stabilization) + ".";
  return {count, count, stated_slice(plan, d), text,
          nonzero({{"concurrency", concurrency}, {"target", target}, {"wanted", wanted}})};
}

}  // namespace

std::span<const Setting<HpaSettings>> HpaSettings::settings() {
  using S = HpaSettings;
  static constexpr Setting<S> kAll[] = {
      {"target_utilisation", &S::target_utilisation, 0.01, 1, "of an instance's concurrency"},
      {"tolerance", &S::tolerance, 0, 1, "part of the target that is worth no change"},
      {"stabilization", &S::stabilization, 0, 3600, "for which the largest number wanted counts"},
  };
  return kAll;
}

std::vector<Action> scale_hpa(Input& input) {
  ClusterPlan plan(input, /*movable=*/false);
  for (const Demand& d : plan.demands()) {
    Running running;
    for (const Demand& other : plan.demands()) {
      if (other.view != d.view) continue;
      const int count = static_cast<int>(plan.serving(other).size());
      running.most = std::max(running.most, count);
      if (other.revision == d.revision) running.revision = count;
    }
    hold_replicas(plan, d, replicas_of(plan, d, running));
  }
  std::erase_if(input.memory.numbers, [&](const auto& entry) {  // of deleted functions
    const Wanted& wanted = entry.second;
    return wanted.empty() || wanted[wanted.size() - 2] < input.now() - kForgotten;
  });
  return plan.actions();
}

}  // namespace sluice::policy
