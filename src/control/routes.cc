#include "control/routes.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

namespace sluice::control {

const FunctionSpec& spec_of(const StoredFunction& f, int revision) {
  for (const Revision& r : f.revisions)
    if (r.number == revision) return r.spec;
  return f.revisions.back().spec;
}

std::vector<std::pair<int, int>> traffic_split(const StoredFunction& f, bool newest_ready) {
  if (f.newest == f.serving) return {{f.newest, 100}};
  const int wanted = spec_of(f, f.newest).inference().canary_traffic_percent;
  const int canary = newest_ready && wanted < 100 ? wanted : 0;
  return {{f.serving, 100 - canary}, {f.newest, canary}};
}

namespace {

using DevicesById = std::unordered_map<std::string_view, const Device*>;

InstanceRoute instance_route(const ObservedInstance& o, const InferenceSpec& spec,
                             const DevicesById& devices, const Predictor& predictor) {
  const Instance& i = o.instance;
  const int credit =
      std::max(spec.container_concurrency > 0 ? spec.container_concurrency : i.batch, 1);
  const auto device = devices.find(i.device());
  const double capability =
      device == devices.end()
          ? 0
          : predictor.throughput(model_on(i.function, i.revision, *device->second),
                                 {i.batch, i.slice().sm, i.slice().quota.request});
  return {.id = i.id,
          .revision = i.revision,
          .socket = o.socket,
          .credit = credit,
          .batch = std::min(i.batch, credit),
          .capability = capability > 0
                            ? capability
                            : i.slice().sm.fraction() * i.slice().quota.request.fraction(),
          .ready = i.state == InstanceState::kReady};
}

}  // namespace

RoutingTable routing_table(const std::vector<RoutedFunction>& functions,
                           const std::vector<ObservedInstance>& instances,
                           const std::vector<Device>& devices, const Predictor& predictor) {
  DevicesById by_id;
  for (const Device& d : devices) by_id.emplace(d.id, &d);
  std::map<FunctionName, std::vector<const ObservedInstance*>> of;
  for (const ObservedInstance& o : instances) of[o.instance.function].push_back(&o);
  RoutingTable table;
  for (const RoutedFunction& routed : functions) {
    const StoredFunction& f = *routed.function;
    const InferenceSpec& spec = spec_of(f, f.newest).inference();
    FunctionRoute& route = table.functions[served_name(f.name)];
    route = {.name = f.name,
             .slo = spec.slo.latency,
             .timeout = spec.timeout,
             .max_queue = spec.max_queue,
             .admit_all = spec.admit_all,
             .token = spec.token,
             .unavailable = routed.unavailable,
             .route = std::string(routed.route)};
    bool newest_ready = false;
    for (const ObservedInstance* o : of[f.name]) {
      const Instance& i = o->instance;
      newest_ready |= i.revision == f.newest && i.state == InstanceState::kReady;
      if (o->foreign || (i.state != InstanceState::kReady && i.state != InstanceState::kDraining))
        continue;
      route.instances.push_back(
          instance_route(*o, spec_of(f, i.revision).inference(), by_id, predictor));
    }
    for (const auto& [number, percent] : traffic_split(f, newest_ready))
      route.split.push_back({number, percent});
  }
  return table;
}

}  // namespace sluice::control
