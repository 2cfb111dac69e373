// Checks of a specification before any of it is deployed: its model is a model, its signature is
// known, a device can hold it, and its objective can be met.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/device.h"
#include "model/function.h"
#include "model/predictor.h"

namespace sluice::control {

// Fills in the inputs and outputs from the model's sidecar (NAME.json beside NAME.pt), unless the
// function's file has them. Returns kInvalid with the file, the field, the value and the allowed
// range. Reads files: not for a loop's thread. Any thread.
Result<void> check_model(ModelSpec& model);

// `fastest`: the shortest latency measured for this model; nothing: not measured.
Result<void> check_feasible(const FunctionSpec& spec, const std::vector<Device>& devices,
                            std::optional<Nanos> fastest);

// Returns the parts of the specification without effect, a sentence each. Pure.
std::vector<std::string> contradictions(const InferenceSpec& spec);

}  // namespace sluice::control
