#include "predict/network.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace sluice::predict {
namespace {

double silu(double z) {
  return z / (1 + std::exp(-z));
}

// As the header has it.
double by_formula(const Network& n, const std::vector<double>& x) {
  std::vector<double> one = n.first_bias, two = n.second_bias;
  for (size_t j = 0; j < n.inputs; ++j)
    for (size_t i = 0; i < n.hidden; ++i) one[i] += n.first[j * n.hidden + i] * x[j];
  for (double& z : one) z = silu(z);
  for (size_t j = 0; j < n.hidden; ++j)
    for (size_t i = 0; i < n.hidden; ++i) two[i] += n.second[j * n.hidden + i] * one[j];
  double y = n.bias;
  for (size_t i = 0; i < n.hidden; ++i) y += n.last[i] * silu(two[i]);
  for (size_t j = 0; j < n.inputs; ++j) y += n.direct[j] * x[j];
  return y;
}

TEST(Network, IsItsFormulaWhateverItsSizeAndWeights) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const double spread = std::pow(10, random.uniform() * 3 - 1);  // far beyond where e^z overflows
    const auto some = [&](size_t count) {
      std::vector<double> all(count);
      for (double& x : all) x = random.chance(0.2) ? 0 : spread * (2 * random.uniform() - 1);
      return all;
    };
    const size_t in = 1 + random.below(40), hidden = 1 + random.below(100);
    const Network n{
        in,           hidden,       some(in * hidden), some(hidden), some(hidden * hidden),
        some(hidden), some(hidden), some(in),          spread};
    ASSERT_TRUE(n.is_whole());
    const std::vector<double> x = some(in);
    const double wanted = by_formula(n, x);
    EXPECT_NEAR(n.value(x), wanted, 1e-8 * std::abs(wanted) + 1e-8 * spread * spread * spread);
  }
}

}  // namespace
}  // namespace sluice::predict
