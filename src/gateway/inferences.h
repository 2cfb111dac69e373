// How many inferences a request asks for, before an instance has read it: so that a route can send
// large requests to strong devices (SMIF §4.5) and count load in inferences. Pure, bounded.
#pragma once

#include <string_view>

#include "gateway/head.h"

namespace sluice::gateway {

// Returns what its header `Sluice-Inferences` says, else the first dimension of its first input
// (`inputs[0].shape[0]` of the Open Inference Protocol), as far as that stands in the first 16 KiB;
// tensors are not read. 0: not known, or it cannot be: below 1, above 65,536, or more than the body
// has bytes. `body` is what is at hand of it, `body_bytes` its length as far as that is known.
int inferences_asked(const Head& request, std::string_view body, uint64_t body_bytes);

}  // namespace sluice::gateway
