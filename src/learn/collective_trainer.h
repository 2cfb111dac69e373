// Fits the graph network of all-reduce times (learn/graph_network.h) to samples with libtorch's
// automatic differentiation: the logarithms of the noisy times, smooth L1 loss, AdamW.
#pragma once

#include <cstdint>

#include "learn/collective_samples.h"
#include "learn/graph_network.h"

namespace sluice::learn {

struct CollectiveTraining {
  NodeFeatures features = NodeFeatures::kPlacement;
  int passes = 100;  // over the training part
  int batch = 64;
  int layers = 3, hidden = 40;
  double rate = 0.01;  // of AdamW at its highest
  double decay = 0.001;
  uint64_t seed = 1;
};

struct TrainedCollective {
  GraphNetwork network;
  // The largest difference of log T between libtorch's network and the one above, over the samples
  // for validation: the formula stands in both.
  double largest_difference = 0;
};

// Learns from the samples of the part kTrain alone. Deterministic with the seed; takes one thread,
// and may run beside another. REQUIRES: the parts kTrain and kValidate have samples.
TrainedCollective train_collective(const CollectiveSamples& samples,
                                   const CollectiveTraining& settings);

// Returns the mean of |predicted ÷ exact − 1| over the samples of a part, in per cent.
double collective_error(const CollectiveSamples& samples, Part part, const GraphNetwork& network);

}  // namespace sluice::learn
