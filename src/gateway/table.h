// The routing table that a gateway accepts (docs/design/processes.md): as wire/json/routing_json.h
// reads it, with routes that exist.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "model/routing.h"

namespace sluice::gateway {

Result<RoutingTable> table_from(const nlohmann::json&);
Result<RoutingChange> change_from(const nlohmann::json&);

}  // namespace sluice::gateway
