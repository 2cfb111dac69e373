#include "train/noise_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"

namespace sluice::train {
namespace {

constexpr int kNumbers = 64;

double square(const std::vector<double>& g) {
  double sum = 0;
  for (const double x : g) sum += x * x;
  return sum;
}

// Gradients μ + N(0, σ²) per sample, with |μ|² = 1 and tr(Σ) = φ.
GradientNorms step_of(int workers, int local, double noise, Random& random) {
  const double mu = 1 / std::sqrt(kNumbers), sigma = std::sqrt(noise / kNumbers);
  std::vector<double> sum(kNumbers);
  GradientNorms n{.small = static_cast<double>(local), .big = static_cast<double>(workers) * local};
  for (int w = 0; w < workers; ++w) {
    std::vector<double> g(kNumbers);
    for (int i = 0; i < kNumbers; ++i) {
      g[static_cast<size_t>(i)] = mu + sigma / std::sqrt(local) * random.normal();
      sum[static_cast<size_t>(i)] += g[static_cast<size_t>(i)] / workers;
    }
    n.small_square += square(g) / workers;
  }
  n.big_square = square(sum);
  return n;
}

TEST(NoiseScale, IsFoundFromGradientsOfKnownNoise) {
  for (const int workers : {2, 4, 16})
    for (const double noise : {1.0, 10.0, 100.0}) {
      Random random(7);
      double sum = 0;
      for (int i = 0; i < 100; ++i) {
        NoiseScale scale;
        for (int step = 0; step < 60; ++step) scale.add(step_of(workers, 32, noise, random));
        sum += scale.value();
      }
      EXPECT_NEAR(sum / 100 / noise, 1, 0.05) << workers << " workers, " << noise;
    }
}

TEST(NoiseScale, SaysNothingOfOneWorkerNorOfNumbersThatAreNone) {
  NoiseScale scale;
  for (int i = 0; i < 100; ++i)
    scale.add({.small = 32, .big = 32, .small_square = 1, .big_square = 1});
  for (int i = 0; i < 100; ++i)
    scale.add({.small = 32, .big = 64, .small_square = std::nan(""), .big_square = 1});
  EXPECT_EQ(scale.steps(), 0);
  EXPECT_EQ(scale.value(), 0);
}

TEST(NoiseScale, StaysWithinItsBounds) {
  NoiseScale quiet;
  for (int i = 0; i < 100; ++i)
    quiet.add({.small = 1, .big = 2, .small_square = 1, .big_square = 1});
  EXPECT_EQ(quiet.value(), 0.1);
  NoiseScale lost;  // the mean gradient vanishes in the noise: |G|² is below 0
  for (int i = 0; i < 100; ++i)
    lost.add({.small = 1, .big = 2, .small_square = 4, .big_square = 1});
  EXPECT_EQ(lost.value(), 0);
}

}  // namespace
}  // namespace sluice::train
