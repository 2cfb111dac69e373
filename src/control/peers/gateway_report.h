// What a gateway reports: its answer to GET /v1/stats, as a part of an observation. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <set>

#include "control/cluster.h"

namespace sluice::control {

// Fills in all but the gateway's name and the time. What it does not understand of the statistics
// it leaves out, and the log says so.
void take_stats(const nlohmann::json& stats, ObservedGateway& gateway);

// Returns the instances with a request in hand that an answer of a gateway names.
std::set<InstanceId> busy_from(const nlohmann::json& answer);

}  // namespace sluice::control
