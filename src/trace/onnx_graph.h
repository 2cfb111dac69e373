// The OperatorGraph of an ONNX file: static features, since nothing here runs ONNX. Shapes that the file does not
// tell are derived for the usual operators.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/function.h"
#include "model/operator_graph.h"

namespace sluice::trace {

struct OnnxModel {
  std::vector<TensorSpec> inputs, outputs;  // a dimension that has a name is -1
  OperatorGraph graph;
};

// Every dimension that has a name counts as `batch`. Returns kInvalid for a text that is no ONNX model, for
// control flow, and for a shape that can neither be read nor derived, with the operator.
Result<OnnxModel> onnx_model_from(std::string_view text, int batch);

}  // namespace sluice::trace
