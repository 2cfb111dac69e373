// Several requests as one inference: their inputs joined along the first dimension, the outputs cut
// apart again. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/function.h"
#include "runtime/oip.h"
#include "runtime/tensor.h"

namespace sluice::runtime {

// Whether the first dimension of every input and output is the batch.
bool batchable(const ModelSpec&);

// How many inferences the request is; kInvalid when its inputs disagree about it or it is more than
// one batch may hold. 1 for a model that is not batchable.
Result<int> inferences_of(const InferRequest&, const ModelSpec&, int max_batch);

// Equal for requests that may run together.
std::string batch_key(std::span<const Tensor> inputs, const Parameters&);

// REQUIRES: parts of one key, all their inputs with a first dimension.
std::vector<Tensor> join(std::span<const std::vector<Tensor>* const> parts);

// Cuts every output into parts of the given numbers of rows; kInternal when a model's output does
// not have as many rows as went in.
Result<std::vector<std::vector<Tensor>>> split(std::vector<Tensor> outputs,
                                               std::span<const int> rows);

}  // namespace sluice::runtime
