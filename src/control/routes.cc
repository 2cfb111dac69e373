#include "control/routes.h"

#include <algorithm>
#include <set>

namespace sluice::control {

const Revision& revision_of(const StoredFunction& f, int revision) {
  for (const Revision& r : f.revisions)
    if (r.number == revision) return r;
  return f.revisions.back();
}

const FunctionSpec& spec_of(const StoredFunction& f, int revision) {
  return revision_of(f, revision).spec;
}

std::vector<std::pair<int, int>> traffic_split(const StoredFunction& f, bool newest_ready) {
  if (f.newest == f.serving) return {{f.newest, 100}};
  const FunctionSpec& newest = spec_of(f, f.newest);
  const int wanted = newest.is_inference() ? newest.inference().canary_traffic_percent : 100;
  const int canary = newest_ready && wanted < 100 ? wanted : 0;
  return {{f.serving, 100 - canary}, {f.newest, canary}};
}

namespace {

InstanceRoute instance_route(const RoutedInstance& routed, const InferenceSpec& spec,
                             const std::vector<Device>& devices, const Predictor& predictor) {
  const Instance& i = routed.instance->instance;
  const int credit =
      std::max(spec.container_concurrency > 0 ? spec.container_concurrency : i.batch, 1);
  const Device* device = find(devices, i.device());
  const double capability =
      device == nullptr ? 0
                        : predictor.throughput(model_on(i.function, i.revision, *device),
                                               {i.batch, i.slice().sm, i.slice().quota.request});
  return {.id = i.id,
          .revision = i.revision,
          .socket = routed.instance->address,
          .credit = credit,
          .batch = std::min(i.batch, credit),
          .capability = capability > 0
                            ? capability
                            : i.slice().sm.fraction() * i.slice().quota.request.fraction(),
          .ready = routed.state == InstanceState::kReady};
}

// What a failing device answers is worthless, and may come fast: requests go there only where no
// other instance of the revision is ready.
void spare_failing(FunctionRoute& route, const std::vector<RoutedInstance>& instances,
                   const std::vector<Device>& devices) {
  const auto fails = [&](const InstanceRoute& r) {
    const auto routed = std::ranges::find_if(
        instances, [&](const RoutedInstance& i) { return i.instance->instance.id == r.id; });
    const Device* d = find(devices, routed->instance->instance.device());
    return d != nullptr && !d->fault.empty();
  };
  std::vector<InstanceRoute*> failing;
  std::set<int> sound;  // revisions
  for (InstanceRoute& r : route.instances) {
    if (!r.ready) continue;
    if (fails(r))
      failing.push_back(&r);
    else
      sound.insert(r.revision);
  }
  for (InstanceRoute* r : failing) r->ready = !sound.contains(r->revision);
}

}  // namespace

FunctionRoute function_route(const RoutedFunction& function,
                             const std::vector<RoutedInstance>& instances,
                             const std::vector<Device>& devices, const Predictor& predictor) {
  const StoredFunction& f = *function.function;
  const InferenceSpec& spec = spec_of(f, f.newest).inference();
  FunctionRoute route{.name = f.name,
                      .slo = spec.slo.latency,
                      .timeout = spec.timeout,
                      .max_queue = spec.max_queue,
                      .admit_all = spec.admit_all,
                      .token = spec.token,
                      .unavailable = function.unavailable,
                      .route = std::string(function.route),
                      .http = spec.model.program.http};
  bool newest_ready = false;
  for (const RoutedInstance& i : instances) {
    const int revision = i.instance->instance.revision;
    const bool ready = i.state == InstanceState::kReady;
    newest_ready |= revision == f.newest && ready;
    // A Pod that drains before it ran has no address.
    if (i.instance->foreign || i.instance->address.empty()) continue;
    if (!ready && i.state != InstanceState::kDraining) continue;
    route.instances.push_back(
        instance_route(i, spec_of(f, revision).inference(), devices, predictor));
  }
  spare_failing(route, instances, devices);
  for (const auto& [number, percent] : traffic_split(f, newest_ready))
    route.split.push_back({number, percent});
  return route;
}

}  // namespace sluice::control
