// TorchScript models through libtorch, in their optimised form: frozen, convolutions with weights
// in oneDNN's layout, run by our executor; by torch's interpreter where the graph has control flow.
// Torch's headers stay behind this one.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/engine.h"

namespace sluice::runtime {

// Loads on one thread and starts none, so that the process may fork afterwards.
Result<std::unique_ptr<Model>> load_torchscript(const ModelFile&);

// What forward() takes and returns: {"inputs": [NAME…], "outputs": N}. With an `inputs` for each of
// them the model is run, and "outputs" are [{"name", "datatype", "shape"}…]. kInvalid: no model, or
// one that takes more than tensors.
Result<nlohmann::json> inspect_torchscript(const std::string& path,
                                           const std::vector<TensorSpec>& inputs);

}  // namespace sluice::runtime
