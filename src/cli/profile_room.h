// Where a measurement may take place: devices with free time, and which parts of them an instance
// may have.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "base/result.h"
#include "cli/profile_points.h"
#include "model/function.h"

namespace sluice::cli {

// Returns, of each type that the function may run on, the device with most time left, if that is a
// fifth. Returns kExhausted if there is none, with how to free some. `state` is the node's.
Result<std::vector<ProfileRoom>> rooms_to_measure(const nlohmann::json& state,
                                                  const FunctionSpec& spec);

}  // namespace sluice::cli
