// Models that need no framework: for tests of everything around a model, and for sanitizer builds.
// The model file is JSON, {"builtin": NAME} and its settings:
//   add_sub   two numeric inputs of equal shape → their sum and difference (Triton's `simple`)
//   identity  every input is the output of the same position
//   spin      as identity, after `spin_us` of busy time per inference, in units of 20 µs
#pragma once

#include <memory>

#include "runtime/engine.h"

namespace sluice::runtime {

Result<std::unique_ptr<Model>> load_builtin(const ModelFile&);

}  // namespace sluice::runtime
