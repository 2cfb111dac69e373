// The gradient noise scale φ = tr(Σ) / |G|² in samples: how large a batch has to be before a larger
// one brings less (McCandlish et al., 2018, appendix A). A value of one owner.
#pragma once

namespace sluice::train {

// What a step of K ≥ 2 workers tells: the mean over its workers of the squared norm of their own
// mean gradient, of `small` samples each, and that of the whole step's, of `big` samples.
struct GradientNorms {
  double small = 0, big = 0;                // samples
  double small_square = 0, big_square = 0;  // |g|²
};

class NoiseScale {
 public:
  // Steps whose norms are not finite, or of one worker alone, are ignored.
  void add(const GradientNorms& norms);

  // Returns φ within [0.1, 1e7]; 0 until enough steps were seen, or while |G|² is not above 0.
  double value() const;
  int steps() const { return steps_; }

 private:
  // Averages of both parts: a mean of ratios would be ruled by the steps with the least |G|².
  double square_ = 0;    // |G|²
  double variance_ = 0;  // tr(Σ)
  int steps_ = 0;
};

}  // namespace sluice::train
