// The check of a model's files before it is deployed: the archive, and the sidecar that describes
// it. Any thread; takes as long as the disk does.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/function.h"

namespace sluice::control {

// Fills in the inputs and outputs from the model's sidecar (NAME.json beside NAME.pt), unless the
// function's file has them. Returns kInvalid with the file, the field, the value and the allowed
// range.
Result<void> check_model(ModelSpec& model);

// Fills in what a sidecar says. `shown`: its path or URL, for errors.
Result<void> describe_model(ModelSpec& model, std::string_view sidecar, const std::string& shown);

// Returns kInvalid, with what it lacks, for a file at `path` that is none of the model's kind.
// REQUIRES: the model's format names a kind of server.
Result<void> check_model_file(const ModelSpec& model, const std::string& path);

}  // namespace sluice::control
