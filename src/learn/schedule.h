// The rate of learning over a training: it rises over the first third to the highest, then falls as
// a cosine.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sluice::learn {

// `done`: the part of all passes that is behind, from 0 to 1.
inline double rate_at(double done, double highest) {
  constexpr double kRise = 0.3;
  if (done < kRise) return highest * (0.04 + 0.96 * done / kRise);
  const double fallen = (done - kRise) / (1 - kRise);
  return highest * std::max(0.001, 0.5 * (1 + std::cos(std::numbers::pi * fallen)));
}

}  // namespace sluice::learn
