// Checks of a specification before any of it is deployed: a device can hold it, and its objective
// can be met. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/device.h"
#include "model/function.h"
#include "model/predictor.h"

namespace sluice::control {

// `fastest`: the shortest latency measured for this model; nothing: not measured.
Result<void> check_feasible(const FunctionSpec& spec, const std::vector<Device>& devices,
                            std::optional<Nanos> fastest);

// Returns the parts of the specification without effect, a sentence each.
std::vector<std::string> contradictions(const InferenceSpec& spec);

}  // namespace sluice::control
