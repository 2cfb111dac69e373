// What a model says of itself beside its file, in NAME.json for NAME.pt:
//   {"inputs": [{"name", "datatype", "shape"}], "outputs": […]}
// `name` and `platform` may stand there, too. `apply` and the model server's loader both read it
// here, so that what one accepts the other can load. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/function.h"

namespace sluice::wire {

inline constexpr std::string_view kTorchscript = "pytorch_torchscript";

struct ModelDescription {
  std::string name;  // what the model calls itself; empty: nothing
  std::string platform{kTorchscript};
  std::vector<TensorSpec> inputs, outputs;
};

// kInvalid: all that is wrong with it, each as "inputs[0].datatype: …", with a semicolon between.
Result<ModelDescription> model_description_from(const nlohmann::json& sidecar);

// What is wrong with one tensor: the field and why, for each field.
using FieldProblems = std::vector<std::pair<std::string, std::string>>;
FieldProblems tensor_problems(const TensorSpec& tensor, std::string_view platform);

// The datatypes that a platform's models take and return.
std::vector<std::string_view> datatypes_of(std::string_view platform);

}  // namespace sluice::wire
