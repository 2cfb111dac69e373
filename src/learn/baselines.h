// The two learned predictors that HAS-GPU compares, as references for WorkModel. Networks of
// libtorch, used where they were trained and nowhere else.
//
//   dippm  a network over what is known without a run: MACs, parameters, counts of operator types;
//          and the configuration
//   rapp   graph attention over the operators with their times under several sm; beside it a net
//          over the static features, the five quota times and the configuration; both merged
//          (HAS-GPU, §RaPP)
#pragma once

#include "learn/evaluation.h"
#include "learn/points.h"

namespace sluice::learn {

struct BaselineSettings {
  int passes = 1500;  // each over `models_a_pass` models with `points_a_model` points
  int models_a_pass = 16, points_a_model = 64;
  double rate = 0.004, decay = 0.01;
  uint64_t seed = 1;
};

// Deterministic with the seed on one thread. Predicts the models of `data` alone.
ModelPredictor train_dippm(const trace::LatencyData& data, const Chosen& chosen,
                           const BaselineSettings& settings);
ModelPredictor train_rapp(const trace::LatencyData& data, const Chosen& chosen,
                          const BaselineSettings& settings);

}  // namespace sluice::learn
