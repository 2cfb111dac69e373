// A function's traffic counters in the journal's form. Pure.
#pragma once

#include <nlohmann/json.hpp>

#include "control/traffic.h"

namespace sluice::control {

nlohmann::json to_json(const Traffic& traffic);
// Throws nlohmann's exceptions if `j` is of another shape. Missing counters start from zero.
void restore(Traffic& traffic, const nlohmann::json& j);

}  // namespace sluice::control
