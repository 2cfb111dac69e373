#include "gateway/table.h"

#include <utility>

#include "routing/route.h"
#include "wire/json/routing_json.h"

namespace sluice::gateway {
namespace {

Result<void> check_routes(const std::map<std::string, FunctionRoute>& functions) {
  for (const auto& [served, r] : functions) {
    if (policy::find_route(r.route) != nullptr) continue;
    std::string message = "function.route: '" + r.route + "' is none of";
    for (const char* separator = " "; const policy::Route& known : policy::routes())
      message += std::exchange(separator, ", ") + std::string(known.name);
    return Error{ErrorKind::kInvalid, message};
  }
  return {};
}

}  // namespace

Result<RoutingTable> table_from(const nlohmann::json& j) {
  SLUICE_ASSIGN(table, wire::routing_table_from(j));
  if (const auto known = check_routes(table.functions); !known.ok()) return known.error();
  return table;
}

Result<RoutingChange> change_from(const nlohmann::json& j) {
  SLUICE_ASSIGN(change, wire::routing_change_from(j));
  if (const auto known = check_routes(change.changed); !known.ok()) return known.error();
  return change;
}

}  // namespace sluice::gateway
