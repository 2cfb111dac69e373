// The OperatorGraph of an ONNX file: static features, since nothing here runs ONNX. Shapes that the
// file does not tell are derived for the usual operators.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/function.h"
#include "model/operator_graph.h"

namespace sluice::trace {

struct OnnxModel {
  std::vector<TensorSpec> inputs, outputs;  // a dimension without a number is -1
  OperatorGraph graph;                      // without operators where an input's size is not known
};

// `stated` takes the place of the inputs of its names. An input's first dimension counts as `batch`
// where it has no number. Returns kInvalid for a text that is no ONNX model, for a stated input
// that is none of the model's, for control flow, and for a shape that can neither be read nor
// derived, with the operator.
Result<OnnxModel> onnx_model_from(std::string_view text, int batch,
                                  const std::vector<TensorSpec>& stated = {});

}  // namespace sluice::trace
