#include "control/route_sync.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace sluice::control {
namespace {

InstanceState routed_state(const ObservedInstance& o, const Stops& stops) {
  return stops.asked(o.instance.id) ? InstanceState::kDraining : o.instance.state;
}

// Compares all but the state.
bool same_place(const Instance& a, const Instance& b) {
  return a.id == b.id && a.function == b.function && a.revision == b.revision &&
         a.parts == b.parts && a.batch == b.batch && a.started == b.started;
}

}  // namespace

// Compares in place: most ticks change nothing, and a copy of all instances would cost the most.
bool RouteSync::unchanged(const std::vector<RoutedFunction>& functions,
                          const std::vector<ObservedInstance>& instances,
                          const Stops& stops) const {
  const auto same_function = [](const RoutedFunction& now, const Function& then) {
    return now.function->name == then.name && now.function->newest == then.newest &&
           now.function->serving == then.serving && now.unavailable == then.unavailable;
  };
  if (!std::ranges::equal(functions, functions_, same_function)) return false;
  auto then = places_.begin();
  for (const ObservedInstance& o : instances) {
    if (!alive(o)) continue;
    if (then == places_.end() || !same_place(o.instance, then->instance) ||
        then->instance.state != routed_state(o, stops) || then->socket != o.socket)
      return false;
    ++then;
  }
  return then == places_.end();
}

void RouteSync::remember(const std::vector<RoutedFunction>& functions,
                         const std::vector<ObservedInstance>& instances) {
  functions_.clear();
  for (const RoutedFunction& f : functions)
    functions_.push_back(
        {f.function->name, f.function->newest, f.function->serving, f.unavailable});
  places_.clear();
  for (const ObservedInstance& o : instances)
    if (alive(o)) places_.push_back({o.instance, o.socket});
}

// Sends it to every gateway that answers. Returns whether these accepted it.
bool RouteSync::give(Cluster& cluster, Observation& seen, const RoutingTable& table) {
  bool taken = true;
  for (ObservedGateway& gateway : seen.gateways) {
    if (!gateway.there) continue;
    auto busy = cluster.set_routes(gateway.name, table);
    if (busy.ok()) {
      gateway.routes_version = table.version;
      gateway.busy = std::move(*busy);
    } else {
      log::warn("routes: {}", busy.error().message);
      taken = false;
    }
  }
  return taken;
}

bool RouteSync::push(Cluster& cluster, Observation& seen,
                     const std::vector<RoutedFunction>& functions, const Stops& stops,
                     const Predictor& predictor) {
  bool any = false, other = version_ == 0;  // there; one has other routes than it was sent
  int64_t newest = version_;
  for (const ObservedGateway& g : seen.gateways) {
    if (!g.there) continue;
    any = true;
    other |= g.routes_version != version_;
    newest = std::max(newest, g.routes_version);
  }
  if (!any) return false;
  if (!other && !stale_ && unchanged(functions, seen.instances, stops))
    return all_gateways_there(seen);
  std::vector<ObservedInstance> instances = seen.instances;
  for (ObservedInstance& o : instances)
    if (alive(o)) o.instance.state = routed_state(o, stops);
  RoutingTable table = routing_table(functions, instances, seen.devices, predictor);
  if (table.functions != given_.functions || given_.version == 0 || other) {
    // Larger than any earlier version, also of a dead loop's.
    version_ = newest + 1;
    table.version = version_;
    if (!give(cluster, seen, table)) {
      given_ = {};  // it may have taken effect nevertheless
      stale_ = true;
      return false;
    }
    given_ = std::move(table);
  }
  remember(functions, instances);
  stale_ = false;
  return all_gateways_there(seen);
}

}  // namespace sluice::control
