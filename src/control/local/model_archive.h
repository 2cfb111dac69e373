// Checks that a file is a TorchScript model: a zip archive whose directory, at its end, lists
// constants.pkl. Nothing of it is run, and at most 16 MiB of it are read.
#pragma once

#include <string>

#include "base/result.h"

namespace sluice::control {

// Returns kInvalid with the fault: missing, truncated, no archive, an archive of something else.
Result<void> check_model_archive(const std::string& path);

}  // namespace sluice::control
