// Several requests as one inference: their inputs joined along the first dimension, the outputs cut
// apart again. Pure.
#pragma once

#include <optional>
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

// The most bytes that a request for one whole batch needs, binary or as JSON: 32 an element, which
// is twice what a number with its comma takes, and 1 MiB for the rest. Nothing where the model
// leaves the number of elements open.
std::optional<size_t> request_bytes(const ModelSpec&, int max_batch);

// Equal for requests that may run together: their inputs' datatypes and dimensions beyond the
// batch. No model reads the parameters of a request, and all outputs are computed whatever was
// asked for.
std::string batch_key(std::span<const Tensor> inputs);

// REQUIRES: parts of one key, all their inputs with a first dimension.
std::vector<Tensor> join(std::span<const std::vector<Tensor>* const> parts);

// Cuts every tensor into parts of the given numbers of rows; kInternal when one does not have as
// many rows as these are together.
Result<std::vector<std::vector<Tensor>>> split(std::vector<Tensor> tensors,
                                               std::span<const int> rows);

// The rows of each part when at most `batch` of `rows` run at a time: 10 by 4 are {4, 4, 2}.
std::vector<int> rows_of_parts(int rows, int batch);

// The outputs of all parts as one; kInternal when they differ in more than their rows.
Result<std::vector<Tensor>> join_outputs(std::span<const std::vector<Tensor>> parts,
                                         std::span<const int> rows);

}  // namespace sluice::runtime
