#include "control/snapshots.h"

#include <algorithm>

#include "control/routes.h"

namespace sluice::control {
namespace {

FunctionView view_of(const FunctionState& f, int wanted, const SnapshotSettings& settings) {
  const FunctionSpec& spec = spec_of(f.stored, wanted);
  FunctionView v{.spec = spec, .revision = wanted};
  if (f.stored.serving != wanted) {
    const int percent = spec.inference().canary_traffic_percent;
    v.older.push_back({f.stored.serving, spec_of(f.stored, f.stored.serving),
                       percent < 100 ? 100 - percent : 100});
  }
  const Traffic& t = f.traffic;
  v.rate = t.rate(f.bundle->cadence.rate_window);
  v.forecast = f.forecast.seen ? f.forecast.expected : v.rate;
  v.arrivals = f.arrivals;
  const Traffic::Gaps gaps = t.gaps();
  v.arrival_gap = gaps.mean;
  v.arrival_cv = gaps.cv;
  v.latency = f.latency;
  v.queued = t.queued();
  v.in_flight = t.in_flight();
  v.concurrency = t.concurrency(settings.violation_window);
  v.concurrency_peak = t.concurrency_peak();
  v.violating = t.violations(settings.violation_window) > 1 - spec.inference().slo.percentile / 100;
  v.last_scale_down = f.last_scale_down;
  v.last_request = f.last_request;
  const int64_t ms = f.present.longest_start_ms;
  v.start_cost = ms > 0 ? Millis(ms) : settings.start_cost;
  return v;
}

}  // namespace

Snapshot snapshot_of(const Functions& functions, const Observation& seen, const Rollouts& rollouts,
                     const Starts& starts, const Stops& stops, const SnapshotSettings& settings,
                     Time now) {
  Snapshot s{.now = now};
  s.functions.reserve(functions.size());
  for (const auto& [name, f] : functions)
    s.functions.push_back(view_of(f, rollouts.wanted(f.stored), settings));
  s.devices.reserve(seen.devices.size());
  for (const Device& d : seen.devices)
    if (serves(d)) s.devices.push_back(d);
  s.nodes.reserve(seen.nodes.size());
  for (const ObservedNode& n : seen.nodes) s.nodes.push_back(n.node);
  s.instances.reserve(seen.instances.size() + starts.pending_instances().size());
  const bool all_serve = s.devices.size() == seen.devices.size();
  for (const ObservedInstance& o : seen.instances) {
    if (!alive(o)) continue;
    const Device* d = all_serve ? nullptr : find(seen.devices, o.instance.device());
    if (d != nullptr && !serves(*d)) continue;
    Instance& i = s.instances.emplace_back(o.instance);
    i.started = starts.decided_at(i.id);
    if (stops.asked(i.id)) i.state = InstanceState::kDraining;
  }
  if (starts.pending()) {
    for (const auto& [id, instance] : starts.pending_instances()) s.instances.push_back(instance);
    std::ranges::sort(s.instances, {}, &Instance::id);
  }
  return s;
}

}  // namespace sluice::control
