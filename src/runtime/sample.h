// Inputs for runs that no request asks for: the warm-up, and the probes of an inspection. Pure.
#pragma once

#include "base/result.h"
#include "model/model_spec.h"
#include "runtime/tensor.h"

namespace sluice::runtime {

// What stands in for variable dimensions and for values.
struct SampleOf {
  int64_t batch = 1;  // of the first dimension, if it is variable
  int64_t size = 1;   // of every other variable dimension without `sizes`
  double value = 0;   // of every element without a `sample`
};

// Returns a tensor that fits the specification. Returns kInvalid for one of more than 1 GiB.
Result<Tensor> sample_of(const TensorSpec& input, const SampleOf& otherwise);

}  // namespace sluice::runtime
