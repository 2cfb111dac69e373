// A model's folder in Triton's layout:
//   FOLDER/config.pbtxt, FOLDER/VERSION/model.pt
// A folder may be one that other users write: nothing in it is reached over a link. Any thread;
// takes as long as the disk does.
#pragma once

#include <string>

#include "base/result.h"
#include "model/model_spec.h"

namespace sluice::control {

// If `model.path` is a folder, stores the file of its newest version in it, and what config.pbtxt
// says of inputs, outputs and batches, unless the model has it. Returns kInvalid, with the folder,
// for one that cannot be served. Versions that come later count when the function's file is applied
// again.
Result<void> resolve_folder(ModelSpec& model);

}  // namespace sluice::control
