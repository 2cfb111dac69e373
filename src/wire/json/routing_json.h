// The routing table as JSON: the control loop's message, and the gateway's file. Reading is strict:
// it names field and value, and takes a whole table or change, or nothing. The gateway checks that
// the routes named exist.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "model/routing.h"

namespace sluice::wire {

nlohmann::json to_json(const RoutingTable&);
nlohmann::json to_json(const RoutingChange&);
Result<RoutingTable> routing_table_from(const nlohmann::json&);
Result<RoutingChange> routing_change_from(const nlohmann::json&);

}  // namespace sluice::wire
