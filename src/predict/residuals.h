// Residuals: what measurements of a model say beyond an estimate of it, as a Gaussian process over
// the logarithm of measured ÷ estimated. Near a measurement it is believed; far from all, the
// estimate stands with the deviation that estimates of unmeasured models have.
//
//   k(x, y) = near · e^(−|Δlog b| ÷ l₁ − |Δlog s| ÷ l₂ − |Δlog q| ÷ l₃)
//           + state · [same sm] · e^(−|Δlog b| ÷ l₄ − |Δlog q| ÷ l₅)
//
// The second term is the process's state when that sm was set.
#pragma once

#include <span>
#include <vector>

#include "model/predictor.h"

namespace sluice::predict {

// Found by a random search on a third of the models in the V100 data's split `val`, before this
// code; no command repeats it.
struct Kernel {
  double near = 0.016, state = 0.0024;  // variances of a logarithm
  double noise = 0.0025;                // of one measurement
  double near_b = 0.63, near_s = 1.86, near_q = 0.26;
  double state_b = 4.7, state_q = 8;
};

struct Ratio {
  Configuration at;
  double log = 0;  // of measured ÷ estimated
};

class Residuals {
 public:
  Residuals() = default;
  // Costs n³ ÷ 3 multiplications.
  Residuals(const Kernel& kernel, std::vector<Ratio> measured);

  struct Guess {
    double log = 0;
    double deviation = 0;  // of that logarithm
  };
  Guess at(const Configuration& c) const;

 private:
  Kernel kernel_;
  std::vector<Ratio> measured_;
  std::vector<double> factor_;   // of Cholesky: the lower triangle, row by row
  std::vector<double> weights_;  // K⁻¹ · log
};

}  // namespace sluice::predict
