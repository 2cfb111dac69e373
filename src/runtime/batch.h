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

// Returns whether the first dimension of every input and output is the batch.
bool batchable(const ModelSpec&);

// Returns the number of inferences in the request. Returns kInvalid if its inputs disagree about it
// or it is more than one batch may hold. Returns 1 for a model that is not batchable.
Result<int> inferences_of(const InferRequest&, const ModelSpec&, int max_batch);

// Returns the most bytes that a request for one whole batch needs, binary or as JSON: 32 an
// element, twice what a number with its comma takes, and 1 MiB for the rest. Returns nothing if the
// model leaves the number of elements open.
std::optional<size_t> request_bytes(const ModelSpec&, int max_batch);

// Equal for requests that may run together: their inputs' datatypes and dimensions beyond the
// batch. No model reads the parameters of a request, and all outputs are always computed.
std::string batch_key(std::span<const Tensor> inputs);

// REQUIRES: parts of one key, all their inputs with a first dimension.
std::vector<Tensor> join(std::span<const std::vector<Tensor>* const> parts);

// Cuts every tensor into parts of the given numbers of rows. Returns kInternal if one has another
// number of rows than these together.
Result<std::vector<std::vector<Tensor>>> split(std::vector<Tensor> tensors,
                                               std::span<const int> rows);

// Returns the rows of each part when at most `batch` of `rows` run at a time: 10 by 4 are {4, 4,
// 2}.
std::vector<int> rows_of_parts(int rows, int batch);

// Joins the outputs of all parts. Returns kInternal if they differ in more than their rows.
Result<std::vector<Tensor>> join_outputs(std::span<const std::vector<Tensor>> parts,
                                         std::span<const int> rows);

}  // namespace sluice::runtime
