#include "train/noise_scale.h"

#include <algorithm>
#include <cmath>

namespace sluice::train {
namespace {

constexpr double kKept = 0.95;  // of the average, at each step: it looks back on 20
constexpr int kLeastSteps = 10;
constexpr double kLeastScale = 0.1, kMostScale = 1e7;  // what published measurements span

}  // namespace

void NoiseScale::add(const GradientNorms& n) {
  if (!(n.big > n.small) || !(n.small > 0)) return;
  // |G|² = (B·|g_B|² − b·|g_b|²) / (B − b),  tr(Σ) = (|g_b|² − |g_B|²) / (1/b − 1/B)
  const double square = (n.big * n.big_square - n.small * n.small_square) / (n.big - n.small);
  const double variance = (n.small_square - n.big_square) / (1 / n.small - 1 / n.big);
  if (!std::isfinite(square) || !std::isfinite(variance)) return;
  square_ = kKept * square_ + (1 - kKept) * square;
  variance_ = kKept * variance_ + (1 - kKept) * variance;
  ++steps_;
}

double NoiseScale::value() const {
  if (steps_ < kLeastSteps || square_ <= 0) return 0;
  return std::clamp(std::max(variance_, 0.0) / square_, kLeastScale, kMostScale);
}

}  // namespace sluice::train
