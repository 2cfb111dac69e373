#include "model/routing.h"

namespace sluice {

RoutingChange change_between(const RoutingTable& before, const RoutingTable& after) {
  RoutingChange change{.since = before.version, .version = after.version};
  for (const auto& [served, route] : after.functions) {
    const auto was = before.functions.find(served);
    if (was == before.functions.end() || was->second != route) change.changed[served] = route;
  }
  for (const auto& [served, route] : before.functions)
    if (!after.functions.contains(served)) change.removed.push_back(route.name);
  return change;
}

void apply(RoutingTable& table, const RoutingChange& change) {
  table.version = change.version;
  for (const auto& [served, route] : change.changed) table.functions[served] = route;
  for (const FunctionName& name : change.removed) table.functions.erase(served_name(name));
}

}  // namespace sluice
