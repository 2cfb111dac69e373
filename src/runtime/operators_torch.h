// The OperatorGraph of a TorchScript module, with shapes from one run of zeros: TorchScript's own
// propagation finds none. Included where libtorch is.
#pragma once

#include <torch/script.h>

#include <vector>

#include "base/result.h"
#include "model/operator_graph.h"
#include "runtime/executor_torch.h"

namespace sluice::runtime {

// Returns the operators that a run with these inputs executes. Views are none: what reads one reads
// the operator behind it. Batch normalisation is not folded into convolutions, as in the model's
// source. Returns kInvalid for a module with control flow, whose operators depend on its inputs.
// Throws what the model throws.
Result<OperatorGraph> operators_of(torch::jit::Module module, std::vector<c10::IValue> inputs,
                                   int batch);

}  // namespace sluice::runtime
