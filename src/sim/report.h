// Outcomes as JSON, the same bytes for the same outcomes. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "sim/run.h"

namespace sluice::sim {

nlohmann::json to_json(const Scenario& scenario, std::span<const Outcome> outcomes);

}  // namespace sluice::sim
