// The check of a model's files before it is deployed: the archive, and the sidecar that describes
// it. Any thread; takes as long as the disk does.
#pragma once

#include "base/result.h"
#include "model/function.h"

namespace sluice::control {

// Fills in the inputs and outputs from the model's sidecar (NAME.json beside NAME.pt), unless the
// function's file has them. Returns kInvalid with the file, the field, the value and the allowed
// range.
Result<void> check_model(ModelSpec& model);

}  // namespace sluice::control
