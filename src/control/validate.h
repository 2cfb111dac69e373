// Checks of a specification against the world, before anything of it is deployed: is the model a
// model, is its signature known, can any device hold it, can anything be that fast?
#pragma once

#include <optional>

#include "base/result.h"
#include "model/device.h"
#include "model/function.h"
#include "model/predictor.h"

namespace sluice::control {

// Fills in the inputs and outputs from the model's sidecar (NAME.json beside NAME.pt), unless the
// function's file has them. kInvalid names the file, the field, the value and what is allowed.
// Reads files: not for a loop's thread. Any thread.
Result<void> check_model(FunctionSpec& spec);

// `fastest`: the shortest latency ever measured for this model; nothing: never measured.
Result<void> check_feasible(const FunctionSpec& spec, const std::vector<Device>& devices,
                            std::optional<Nanos> fastest);

}  // namespace sluice::control
