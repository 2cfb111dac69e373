// Fits WorkModel's weights (predict/work_model.h) to a folder of latencies with libtorch's
// automatic differentiation. The formula stands here a second time, over tensors: where the two
// differ, what was learned has larger errors than its training had.
#pragma once

#include <functional>

#include "learn/points.h"
#include "predict/work_model.h"
#include "trace/latency_data.h"

namespace sluice::learn {

struct TrainingSettings {
  int passes = 600;  // each over `models_a_pass` models
  int models_a_pass = 20;
  int hidden = 24;
  double rate = 0.012;  // of AdamW at its highest
  double decay = 0.01;
  double unprofiled = 0.3;  // weight of predictions without a profile
  uint64_t seed = 1;
};

// Deterministic with the seed on one thread. `progress` is told of passes done and of the mean
// error so far. REQUIRES: some point is chosen.
predict::WorkWeights train(const trace::LatencyData& data, const Chosen& chosen,
                           const TrainingSettings& settings,
                           const std::function<void(int pass, double loss)>& progress = nullptr);

}  // namespace sluice::learn
