// The model of an inference function: its file, its tensors, its batches. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"

namespace sluice {

// The Open Inference Protocol's tensor: -1 is a variable dimension; the first one is the batch.
struct TensorSpec {
  std::string name;
  std::string datatype;  // "FP32", "INT64", …
  std::vector<int64_t> shape;
  // Of an input, as a usual request has it, for runs that no request asks for (warm-up,
  // inspection).
  std::vector<int64_t> sizes{};  // its shape; -1: the batch; empty: not stated
  std::vector<double> sample{};  // its values, repeated; empty: zeros

  bool operator==(const TensorSpec&) const = default;
};

struct ModelSpec {
  std::string path;  // the model file on this machine
  std::string format = "torchscript";
  std::string content;  // the SHA-256 of file, inputs and outputs; empty: not known
  std::vector<TensorSpec> inputs, outputs;

  bool operator==(const ModelSpec&) const = default;
};

struct Batching {
  int max_size = 1;
  Nanos max_delay{0};  // the longest a request waits for others to join its batch

  bool operator==(const Batching&) const = default;
};

}  // namespace sluice
