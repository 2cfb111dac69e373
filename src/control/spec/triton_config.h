// Triton's config.pbtxt of a model: protobuf's text format, of which these fields count:
//   name, platform, backend, max_batch_size, default_model_filename, version_policy,
//   input and output { name, data_type, dims }
// What else stands there (instance_group, dynamic_batching, …) is Triton's own way of what Sluice
// decides, and is left alone. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/model_spec.h"

namespace sluice::control {

struct TritonConfig {
  std::vector<TensorSpec> inputs, outputs;  // with the batch as their first dimension
  int max_batch = 0;                        // 0: it takes no batches
  std::string file = "model.pt";            // in a version's folder
  std::vector<int64_t> versions;            // that are served; empty: the newest
};

// Returns kInvalid with the line and the field of what cannot be read or served.
Result<TritonConfig> triton_config(std::string_view text);

}  // namespace sluice::control
