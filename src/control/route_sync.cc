#include "control/route_sync.h"

#include <algorithm>
#include <map>
#include <optional>
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

// Functions are by name. Returns nothing for an unknown one.
std::optional<size_t> position(const std::vector<RoutedFunction>& functions,
                               const FunctionName& name) {
  const auto name_of = [](const RoutedFunction& f) -> const FunctionName& {
    return f.function->name;
  };
  const auto at = std::ranges::lower_bound(functions, name, {}, name_of);
  if (at == functions.end() || name_of(*at) != name) return std::nullopt;
  return static_cast<size_t>(at - functions.begin());
}

// Returns the living instances of the functions of which `wanted` holds.
std::vector<std::vector<RoutedInstance>> instances_of(
    const std::vector<RoutedFunction>& functions, const std::vector<bool>& wanted,
    const std::vector<ObservedInstance>& instances, const Stops& stops) {
  std::vector<std::vector<RoutedInstance>> of(functions.size());
  std::optional<size_t> f;  // mostly of the one before
  for (const ObservedInstance& o : instances) {
    if (!f || functions[*f].function->name != o.instance.function)
      f = position(functions, o.instance.function);
    if (f && wanted[*f] && alive(o)) of[*f].push_back({&o, routed_state(o, stops)});
  }
  return of;
}

}  // namespace

// In place: most ticks change nothing, and a copy of all instances would cost the most.
std::vector<bool> RouteSync::changes(const std::vector<RoutedFunction>& functions,
                                     const std::vector<ObservedInstance>& instances,
                                     const Stops& stops) {
  const auto same_name = [](const RoutedFunction& now, const Function& then) {
    return now.function->name == then.name;
  };
  std::vector<bool> changed(functions.size(),
                            !std::ranges::equal(functions, functions_, same_name));
  functions_.resize(functions.size());
  for (size_t f = 0; f < functions.size(); ++f) {
    const StoredFunction& now = *functions[f].function;
    Function& then = functions_[f];
    if (!changed[f] && now.newest == then.newest && now.serving == then.serving &&
        functions[f].unavailable == then.unavailable)
      continue;
    changed[f] = true;
    then = {now.name, now.newest, now.serving, functions[f].unavailable};
  }
  const auto mark = [&](const FunctionName& name) {
    if (const auto f = position(functions, name)) changed[*f] = true;
  };
  std::vector<Place> before = std::exchange(places_, {});
  places_.reserve(instances.size());
  auto then = before.begin();
  for (const ObservedInstance& o : instances) {  // both are by id
    if (!alive(o)) continue;
    for (; then != before.end() && then->instance.id < o.instance.id; ++then)
      mark(then->instance.function);
    const bool known = then != before.end() && then->instance.id == o.instance.id;
    const InstanceState state = routed_state(o, stops);
    if (known && same_place(o.instance, then->instance) && then->instance.state == state &&
        then->address == o.address) {
      places_.push_back(std::move(*then));
    } else {
      places_.push_back({o.instance, o.address});
      places_.back().instance.state = state;
      mark(o.instance.function);
    }
    if (known) ++then;
  }
  for (; then != before.end(); ++then) mark(then->instance.function);
  return changed;
}

// Returns whether that changes any.
bool RouteSync::refresh(const std::vector<bool>& which, const Observation& seen,
                        const std::vector<RoutedFunction>& functions, const Stops& stops,
                        const Predictor& predictor) {
  if (!which.empty() && std::ranges::find(which, true) == which.end()) return false;
  const bool all = std::ranges::find(which, false) == which.end();
  const auto instances = instances_of(functions, which, seen.instances, stops);
  std::map<std::string, FunctionRoute> anew;
  bool changed = false;
  for (size_t f = 0; f < functions.size(); ++f) {
    if (!which[f]) continue;
    FunctionRoute route = function_route(functions[f], instances[f], seen.devices, predictor);
    const std::string served = served_name(route.name);
    FunctionRoute& given = all ? anew[served] : given_.functions[served];
    if (given == route) continue;
    given = std::move(route);
    changed = true;
  }
  if (!all) return changed;
  changed = anew != given_.functions;
  given_.functions = std::move(anew);
  return changed;
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
  std::vector<bool> changed = changes(functions, seen.instances, stops);
  if (other || stale_ || given_.version == 0) changed.assign(functions.size(), true);
  if (refresh(changed, seen, functions, stops, predictor) || given_.version == 0 || other) {
    // Larger than any earlier version, also of a dead loop's.
    given_.version = version_ = newest + 1;
    if (!give(cluster, seen, given_)) {
      given_ = {};  // it may have taken effect nevertheless
      stale_ = true;
      return false;
    }
  }
  stale_ = false;
  return all_gateways_there(seen);
}

}  // namespace sluice::control
