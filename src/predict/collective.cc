#include "predict/collective.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "predict/box_newton.h"

namespace sluice::predict {
namespace {

constexpr size_t kTerms = 4;
constexpr double kMostCoefficient = 1e9;
constexpr double kOtherSize = 1.5;  // bytes ÷ bytes, from which on they tell hop from link

// What the coefficients are multiplied by: launch, hop, link, shared.
Vector<kTerms> terms(int ranks, double bytes) {
  const double steps = 2.0 * (ranks - 1);
  return {1, steps, steps / ranks * bytes, steps * bytes};
}

double dot(const Vector<kTerms>& a, const Vector<kTerms>& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
}

}  // namespace

double all_reduce_seconds(const CollectiveModel& m, int ranks, double bytes) {
  if (ranks <= 1 || !(bytes > 0)) return 0;
  return dot(terms(ranks, bytes), {m.launch, m.hop, m.link, m.shared});
}

std::optional<CollectiveModel> fit_collective(std::span<const CollectiveSample> samples) {
  std::vector<Vector<kTerms>> relative;  // the terms ÷ the measured time, so that the goal is 1
  bool several = false;
  int ranks = 0;
  double fewest = 0, most = 0;  // bytes
  for (const CollectiveSample& s : samples) {
    if (s.ranks <= 1 || !(s.bytes > 0) || !(s.seconds > 0) || !std::isfinite(s.seconds)) continue;
    several |= ranks != 0 && ranks != s.ranks;
    ranks = s.ranks;
    fewest = fewest > 0 ? std::min(fewest, s.bytes) : s.bytes;
    most = std::max(most, s.bytes);
    relative.push_back(terms(s.ranks, s.bytes));
    for (double& term : relative.back()) term /= s.seconds;
  }
  if (relative.empty()) return std::nullopt;
  Box<kTerms> box;
  box.high.fill(kMostCoefficient);
  if (!several) box.high[0] = box.high[3] = 0;
  if (!several && most < kOtherSize * fewest) box.high[1] = 0;
  const auto errors = [&](const Vector<kTerms>& x) {
    Local<kTerms> sum;
    for (const Vector<kTerms>& t : relative) sum.add_square(1, dot(t, x) - 1, t);
    return sum;
  };
  const Vector<kTerms> x = minimise(errors, Vector<kTerms>{}, box).at;
  return CollectiveModel{x[0], x[1], x[2], x[3]};
}

}  // namespace sluice::predict
