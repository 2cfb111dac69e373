// How long a batch takes, from few trials. Work has a part that each batch costs, one that each
// inference costs, and of both a part that divides over the sm:
//
//   t(b, s)    = α + β·b + (γ·b + δ) ÷ s
//
// The quota acts in one of two ways, whichever fits the trials better:
//
//   scheduled:  t(b, s, q) = t(b, s) ÷ q                   all work waits for its turns
//   throttled:  t(b, s, q) = max(t(b, s), λ + μ ÷ q)       the launching thread does; the device
//                                                          goes on with what it has
//
// The second is what a gate before launches alone does (shared measurements of V100s show it). All
// coefficients are ≥ 0, and least squares are of relative errors. A plain value.
#pragma once

#include <array>
#include <span>

#include "model/predictor.h"

namespace sluice::profile {

class TimeModel {
 public:
  // Trials without a median are left out. Without any, every time is 0.
  static TimeModel fit(std::span<const MeasuredPoint> trials);

  // Seconds.
  double operator()(const Configuration& at) const;

  // The mean squared relative error over the trials.
  double error() const { return error_; }

 private:
  double compute(const Configuration& at) const;
  double launch(const Configuration& at) const;
  void fit_scheduled(std::span<const MeasuredPoint> trials);
  void fit_throttled(std::span<const MeasuredPoint> trials);
  void judge(std::span<const MeasuredPoint> trials);

  std::array<double, 4> compute_{};  // α, β, γ, δ
  std::array<double, 2> launch_{};   // μ, λ
  bool throttled_ = false;
  double error_ = 0;
};

}  // namespace sluice::profile
