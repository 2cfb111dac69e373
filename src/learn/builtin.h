// The weights that the program carries, one for each type of device that was measured.
#pragma once

#include <string_view>

#include "learn/weights_json.h"

namespace sluice::learn {

// Returns nothing for a type of device without weights. Matched by the model's name: "V100" is in
// "NVIDIA Tesla V100-SXM2-16GB".
const Learned* builtin_weights(std::string_view device);

}  // namespace sluice::learn
