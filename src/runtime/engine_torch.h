// TorchScript models through libtorch, in their optimised form: frozen, with the convolutions'
// weights in oneDNN's layout, run by our executor. A graph with control flow runs in torch's
// interpreter. Torch's headers stay behind this one.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "model/operator_graph.h"
#include "runtime/engine.h"

namespace sluice::runtime {

// Loads on one thread and starts none, so that the process may fork afterwards.
Result<std::unique_ptr<Model>> load_torchscript(const ModelFile&);

// Returns what forward() takes and returns: {"inputs": [NAME…], "outputs": N}. Given inputs for
// each of them it runs the model, and "outputs" are [{"name", "datatype", "shape"}…]. Returns
// kInvalid for a file that is no model, or a model that takes more than tensors.
// REQUIRES: file.opened
Result<nlohmann::json> inspect_torchscript(const ModelFile& file);

// Returns the operators of a run with zeros, in which every variable dimension of an input is
// `batch`. Returns kInvalid where inputs are missing, or the model has control flow. REQUIRES:
// file.opened
Result<OperatorGraph> operators_of_torchscript(const ModelFile& file, int batch);

}  // namespace sluice::runtime
