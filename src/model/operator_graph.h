// OperatorGraph: what a model computes, in no framework's words: operators with their shapes, work
// and parameters, in an order in which they can run. docs/formats/operator-graph.md is its file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// The types that predictors know. Any other operator is "other".
inline constexpr std::string_view kOperatorTypes[] = {
    "conv2d",     "dwconv2d",   "dense",     "linear_nd", "matmul",    "bias_add",
    "batch_norm", "layer_norm", "relu",      "silu",      "gelu",      "hardswish",
    "sigmoid",    "tanh",       "softmax",   "add",       "mul",       "concat",
    "max_pool2d", "avg_pool2d", "transpose", "mean",      "embedding", "other"};

struct Operator {
  std::string type = "other";
  std::vector<int64_t> in, out;  // shapes of its first input and its first output
  int64_t macs = 0;              // multiply-accumulates of one run
  int64_t parameters = 0;        // numbers it has of its own
  int kernel = 0;                // height of a convolution's or a pool's window
  int stride = 0;
  int groups = 0;  // of a convolution
  std::vector<int>
      from;  // the operators whose results it reads: indices, ascending, all less than its own

  bool operator==(const Operator&) const = default;
};

struct OperatorGraph {
  int batch = 1;  // that the shapes and the work belong to
  std::vector<Operator> operators;
  // Operators whose work is not known, by the framework's names, ascending. They take time that no
  // estimate of this graph has.
  std::vector<std::string> uncounted;

  bool operator==(const OperatorGraph&) const = default;
};

}  // namespace sluice
