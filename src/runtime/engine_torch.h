// TorchScript models through libtorch, in their optimised form: frozen, convolutions with weights
// in oneDNN's layout, run by our executor; by torch's interpreter where the graph has control flow.
// Torch's headers stay behind this one.
#pragma once

#include <memory>

#include "runtime/engine.h"

namespace sluice::runtime {

// Loads on one thread and starts none, so that the process may fork afterwards.
Result<std::unique_ptr<Model>> load_torchscript(const ModelFile&);

}  // namespace sluice::runtime
