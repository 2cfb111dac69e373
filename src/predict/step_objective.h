// What a fit of StepModel (step_fit.h) makes small, near a point: the errors of T_grad and T_step
// over samples, and what keeps γ and β from unfounded values. For step_fit.cc and its neighbours.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "predict/box_newton.h"
#include "predict/step_fit.h"

namespace sluice::predict {

// The parameters by their place in a vector.
enum Parameter : size_t { kAlphaC, kBetaC, kAlphaR, kBetaR, kAlphaN, kBetaN, kGamma, kParameters };
using Theta = Vector<kParameters>;

// The logarithms of one time measured n times, or of several with the sum n of their weights. Of
// them the sum of squared errors of a prediction p is n·(p − mean)² + scatter: merging loses
// nothing.
struct Logs {
  double n = 0, mean = 0, scatter = 0;

  void add(double time, double weight);
};

// The samples of one configuration.
struct StepGroup {
  int workers = 1, nodes = 1;
  double local = 1, speed = 1;
  Logs grad, step;  // grad.n = 0: none of its samples tells T_grad

  bool syncs() const { return workers > 1; }
  Parameter alpha() const { return nodes > 1 ? kAlphaN : kAlphaR; }
  Parameter beta() const { return nodes > 1 ? kBetaN : kBetaR; }
  double more() const { return std::max(workers - 2, 0); }
};

// Returns the configurations of the samples that count, in an order of their own.
std::vector<StepGroup> grouped(std::span<const StepSample> samples);

// The objective of step_fit.h. REQUIRES: the groups outlive it; there is one; α, β > 0, γ ≥ 1.
class StepObjective {
 public:
  explicit StepObjective(std::span<const StepGroup> groups);

  Local<kParameters> operator()(const Theta& x) const;

 private:
  std::span<const StepGroup> groups_;
  double grads_ = 0, steps_ = 0;
};

}  // namespace sluice::predict
