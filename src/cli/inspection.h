// What sluice-runtime tells of a model, in a process of its own: libtorch is not in this one, and a
// model is a program (docs/threat-model.md#models). That process has no privileges, and limits.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace CLI {
class App;
}

namespace sluice::cli {

// Reads tensors as a user states them, each as NAME:DATATYPE:DIMS ("input:FP32:-1,3,224,224"). An
// error begins with the option.
Result<nlohmann::json> tensors_from(const std::vector<std::string>& flags, const char* option);

// Whether sluice-runtime, which inspects, was built and installed beside this program.
bool can_inspect();

// How long one model is read and run; a large one is read from a slow disk. --timeout states
// another.
inline constexpr Nanos kInspection = Seconds(120);
inline constexpr char kInspectionTime[] = "2m";
void add_inspection_time(CLI::App& command, std::string& time);
Result<Nanos> inspection_time(const std::string& time);  // at least a second

// Returns what the model's forward() takes: {"inputs": [NAME…], "outputs": N, or the tensors that a
// run with these inputs returned}. With a batch > 0, inputs are required, and "graph" are its
// operators (docs/formats/operator-graph.md). The batch is each input's first dimension, if that is
// variable. Where another one is, there is no graph, and "unstated" says which.
Result<nlohmann::json> inspect_model(const std::string& model, const nlohmann::json& inputs,
                                     int batch = 0, Nanos patience = kInspection);

// Returns the same of a TorchScript or an ONNX file, with "graph" wherever its inputs are known:
// from flags, from the sidecar, or, of ONNX, from itself.
Result<nlohmann::json> inspect_operators(const std::string& model,
                                         const std::vector<std::string>& flags, int batch,
                                         Nanos patience = kInspection);

}  // namespace sluice::cli
