// What sluice-runtime tells of a model, in a process of its own: libtorch is not in this one, and a broken
// model may end it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice::cli {

// Reads tensors as a user states them, each as NAME:DATATYPE:DIMS ("input:FP32:-1,3,224,224"). An error
// begins with the option.
Result<nlohmann::json> tensors_from(const std::vector<std::string>& flags, const char* option);

// Whether sluice-runtime, which inspects, was built and installed beside this program.
bool can_inspect();

// Returns what the model's forward() takes: {"inputs": [NAME…], "outputs": N, or the tensors that a run with
// these inputs returned}. With a batch > 0, inputs are required, and "graph" are its operators
// (docs/formats/operator-graph.md). The batch is each input's first dimension, if that is variable. Where another one is,
// there is no graph, and "unstated" says which.
Result<nlohmann::json> inspect_model(const std::string& model, const nlohmann::json& inputs,
                                     int batch = 0);

// Returns the same of a TorchScript or an ONNX file, with "graph" wherever its inputs are known: from flags, from
// the sidecar, or, of ONNX, from itself.
Result<nlohmann::json> inspect_operators(const std::string& model,
                                         const std::vector<std::string>& flags, int batch);

}  // namespace sluice::cli
