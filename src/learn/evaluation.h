// How far predictions are from measured latencies: relative errors, over points of a folder of
// data. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "learn/points.h"
#include "trace/latency_data.h"

namespace sluice::learn {

// In percent. `points` without a prediction are left out of the errors, and counted.
struct Errors {
  std::string predictor, split;
  size_t points = 0, without = 0;
  double mean = 0, median = 0, p90 = 0;
};

// Milliseconds by configuration, for the points of one model; nothing where it cannot say.
using Predictions = std::vector<std::optional<double>>;
using ModelPredictor =
    std::function<Predictions(const trace::LatencyModel&, const std::vector<Configuration>&)>;

// Over the chosen points, those of the short profile left out.
Errors errors_of(std::string predictor, std::string split, const trace::LatencyData& data,
                 const Chosen& chosen, const ModelPredictor& predict);

// WorkModel, with the short profile or without any trial. REQUIRES: the data outlives it, here and
// below.
ModelPredictor by_work(const trace::LatencyData& data, predict::WorkWeights weights, bool profiled);

// The references that a learned predictor has to beat.
//
//   operators    Σ operator times at sm ÷ b, batch 1, ÷ quota
//   slower side  max(Σ operator times at sm ÷ b, the profile at that quota)
//   along sm     between the two neighbouring sm of the same batch and quota, of the chosen points
//                of training
//   along quota  likewise between quotas
ModelPredictor operators_rule(const trace::LatencyData& data);
ModelPredictor slower_side_rule(const trace::LatencyData& data);
ModelPredictor along_sm(const trace::LatencyData& data, const Chosen& known);
ModelPredictor along_quota(const trace::LatencyData& data, const Chosen& known);

}  // namespace sluice::learn
