#include "control/kube/route_objects.h"

#include <algorithm>
#include <cctype>

#include "wire/json/routing_json.h"

namespace sluice::control {

using nlohmann::json;

// In lower case, as names of objects are; what a function's name has beyond them becomes '-'.
std::string route_object_name(const FunctionName& f) {
  std::string name = "f." + f.space + "." + f.name;
  std::ranges::transform(name, name.begin(), [](unsigned char c) {
    return c == '_' ? '-' : static_cast<char>(std::tolower(c));
  });
  return name;
}

json route_spec(int64_t version, const FunctionRoute* route) {
  RoutingTable table{.version = version};
  if (route != nullptr) table.functions.emplace(served_name(route->name), *route);
  return {{"version", version}, {"route", wire::to_json(table)}};
}

Result<RouteObject> RouteObject::parse(const json& o) {
  const std::string name = o.value("/metadata/name"_json_pointer, "");
  auto table = wire::routing_table_from(o.value("/spec/route"_json_pointer, json::object()));
  if (!table.ok()) return within(name, table.error());
  return RouteObject{name, std::move(*table)};
}

Result<RoutingTable> table_of(const kube::Informer<RouteObject>::Objects& objects) {
  RoutingTable all{.version = -1};
  for (const auto& [key, object] : objects) {
    if (object->name == kTableObject) all.version = object->table.version;
    for (const auto& [served, route] : object->table.functions)
      all.functions.insert_or_assign(served, route);
  }
  if (all.version < 0) return Error{ErrorKind::kUnavailable, "no version of the routes is known"};
  return all;
}

}  // namespace sluice::control
