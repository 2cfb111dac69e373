// Is a file a TorchScript model? It is a zip archive whose directory, at its end, lists
// constants.pkl; nothing of it is run to find out. At most 16 MiB of it are read.
#pragma once

#include <string>

#include "base/result.h"

namespace sluice::control {

// kInvalid says what is wrong with it: missing, truncated, no archive, an archive of something
// else.
Result<void> check_model_archive(const std::string& path);

}  // namespace sluice::control
