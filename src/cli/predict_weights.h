// Which weights a prediction uses.
#pragma once

#include <string>

#include "base/result.h"
#include "learn/weights_json.h"

namespace sluice::cli {

// Returns those of the file, or the built-in ones of that type of device where no file is named.
Result<learn::Learned> weights_for(const std::string& file, const std::string& device);

}  // namespace sluice::cli
