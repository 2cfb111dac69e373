// How long an all-reduce takes on a placement, by a graph convolution network over the links among
// its GPUs (FaPES, §4.1). Trained elsewhere (src/learn).
//
//   h_v   ← silu(b + W · Σ_u e_vu ÷ √(|N_v|·|N_u|) · h_u)       over the neighbours u of v
//   log T = w · Σ_v pool_v · h_v + c
//
// e is a link's bandwidth ÷ the cluster's largest. Pooling goes from the GPUs to their CPU, from
// CPUs to their switch, from switches to the cluster: each adds the mean of those below to its own.
// That is one weight a node, pool_v.
//
// FaPES prints neither σ, nor what pooling takes, nor a unit for the bytes: silu, means,
// logarithms.
//
// Plain values. Pure; const functions may be called at once.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "learn/interconnect.h"

namespace sluice::learn {

// What a node says of itself.
enum class NodeFeatures {
  // As FaPES prints it: a GPU has its type, the bytes, the bytes of a number, its CPU's cores and
  // memory bandwidth; other nodes have zeros.
  kPrinted,
  // A CPU and a switch have the bytes, too; their kind; the GPUs, the servers and the bandwidth
  // below; the placement's GPUs, servers, switches and least bandwidth, and whether every server
  // has an NVLink ring. h_v itself joins the sum, as in Kipf and Welling (2017). Without these,
  // sums of zeros cannot express the least bandwidth of a path, by which NCCL chooses.
  kPlacement,
};

inline constexpr size_t kNodeFeatures = 16;

// A placement as the network takes it.
class GraphInput {
 public:
  struct Term {
    int to = 0, from = 0;
    double weight = 0;  // e ÷ √(|N_to|·|N_from|); 1 of a node to itself
  };

  // `largest_gb_per_second`: of the whole cluster. REQUIRES: a parent has children.
  GraphInput(const Interconnect& subgraph, double largest_gb_per_second, NodeFeatures features);

  int gpus() const { return gpus_; }
  size_t nodes() const { return pooling_.size(); }
  const std::vector<Term>& terms() const { return terms_; }
  const std::vector<double>& pooling() const { return pooling_; }  // by node
  // Returns the features, by node and then by feature.
  std::vector<double> features(double bytes, int bytes_of_number) const;

 private:
  int gpus_ = 0;
  std::vector<Term> terms_;
  std::vector<double> pooling_;
  std::vector<double> features_;  // without those that the bytes decide
  std::vector<bool> has_bytes_, is_gpu_;
};

struct GraphNetwork {
  struct Layer {
    size_t inputs = 0, outputs = 0;
    std::vector<double> weights;  // W, by input and then by output
    std::vector<double> bias;     // b

    bool operator==(const Layer&) const = default;
  };

  NodeFeatures features = NodeFeatures::kPrinted;
  std::vector<Layer> layers;
  std::vector<double> last;  // w
  double bias = 0;           // c

  bool operator==(const GraphNetwork&) const = default;

  // Whether every part has the size that the one before it asks for.
  bool is_whole() const;
};

// Returns log T, T in seconds. REQUIRES: network.is_whole(), the input has its features, bytes > 0.
double log_all_reduce_seconds(const GraphNetwork& network, const GraphInput& input, double bytes,
                              int bytes_of_number = 4);

// Returns 0 for one GPU, or without bytes. REQUIRES: network.is_whole().
double all_reduce_seconds(const GraphNetwork& network, const GraphInput& input, double bytes,
                          int bytes_of_number = 4);

}  // namespace sluice::learn
