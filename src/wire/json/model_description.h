// A model's own description beside its file, in NAME.json for NAME.pt:
//   {"inputs": [{"name", "datatype", "shape"}], "outputs": […]}
// An input may also have `sizes` and `sample` (docs/function-file.md#a-usual-request). `name` and
// `platform` may stand there, too. `apply` and the model server's loader both read it
// here, so that each accepts what the other does. Pure.
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
  std::string name;  // the model's own name; empty: none
  std::string platform{kTorchscript};
  std::vector<TensorSpec> inputs, outputs;
};

// Returns kInvalid with all its faults, each as "inputs[0].datatype: …", separated by semicolons.
Result<ModelDescription> model_description_from(const nlohmann::json& sidecar);

// The faults of one tensor: the field and the reason, for each field.
using FieldProblems = std::vector<std::pair<std::string, std::string>>;
FieldProblems tensor_problems(const TensorSpec& tensor, std::string_view platform);

// Returns the datatypes that a platform's models take and return.
std::vector<std::string_view> datatypes_of(std::string_view platform);

}  // namespace sluice::wire
