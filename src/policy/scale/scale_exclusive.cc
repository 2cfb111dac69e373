#include "policy/scale/scale_exclusive.h"

#include <algorithm>
#include <cmath>

#include "policy/explain.h"
#include "policy/scale/cluster_plan.h"
#include "policy/scale/replicas.h"

namespace sluice::policy {
namespace {

Replicas replicas_of(const Demand& d, int running, const Snapshot& snapshot, Bytes memory) {
  const auto& config = d.settings->as<ExclusiveSettings>();
  const double target = target_concurrency(d.inference(), config.target_utilisation);
  // The last minute's measurements do not count once the last one may leave.
  const bool idle = d.inference().min_replicas == 0 && d.rested(snapshot.now);
  const double now = idle ? 0 : d.view->concurrency * d.part;
  const double peak = idle ? 0 : std::max(now, d.view->concurrency_peak * d.part);
  const auto instances_for = [&](double concurrency) {
    const int needed = static_cast<int>(std::ceil(concurrency / target));
    return std::clamp(needed, d.inference().min_replicas, most_replicas(d));
  };
  const bool cooled = d.view->last_scale_down == Time{} ||
                      snapshot.now - d.view->last_scale_down >= config.cooldown;
  // One leaves at a time, once the last minute's peak fits into the rest.
  const int kept = cooled ? running - 1 : running;
  const Slice whole{kWhole, {kWhole, kWhole}, memory};
  const auto at_once = [](double concurrency) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", concurrency);
    return std::string(text);
  };
  std::string text = (now < 0.05 ? "No" : at_once(now)) + " requests at once";
  if (peak >= now + 0.05) text += ", up to " + at_once(peak) + " in the last minute";
  if (idle) text += ", and none came for " + seconds_text(d.inference().scale_to_zero_after);
  text += "; one instance takes " + at_once(target) + ".";
  return {instances_for(now), std::max({kept, instances_for(peak), idle ? 0 : 1}), whole, text,
          nonzero({{"concurrency", now}, {"concurrency_peak", peak}, {"target", target}})};
}

}  // namespace

std::span<const Setting<ExclusiveSettings>> ExclusiveSettings::settings() {
  using S = ExclusiveSettings;
  static constexpr Setting<S> kAll[] = {
      {"target_utilisation", &S::target_utilisation, 0.01, 1, "of an instance's concurrency"},
      {"cooldown", &S::cooldown, 0, 3600, "between instances that leave"},
  };
  return kAll;
}

std::vector<Action> scale_exclusive(Input& input) {
  ClusterPlan plan(input, /*movable=*/false);
  for (const Demand& d : plan.demands()) {
    const int running = static_cast<int>(plan.serving(d).size());
    const Bytes memory = instance_memory(plan, d);
    hold_replicas(plan, d, replicas_of(d, running, input.snapshot, memory));
  }
  return plan.actions();
}

}  // namespace sluice::policy
