#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sluice {
namespace {

TEST(Random, SameSeedSameSequence) {
  Random a(7), b(7), c(8);
  EXPECT_EQ(a.next(), b.next());
  EXPECT_NE(a.next(), c.next());
}

TEST(Random, StaysWithinItsBounds) {
  Random r(1);
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_LT(r.below(7), 7u);
    const int64_t x = r.between(-3, 3);
    EXPECT_GE(x, -3);
    EXPECT_LE(x, 3);
    EXPECT_LT(r.uniform(), 1.0);
  }
}

struct Moments {
  double mean = 0, cv = 0;
};

template <class Draw>
Moments moments(Draw draw) {
  double sum = 0, squares = 0;
  const int n = 200'000;
  for (int i = 0; i < n; ++i) {
    const double x = draw();
    sum += x;
    squares += x * x;
  }
  const double mean = sum / n;
  return {mean, std::sqrt(squares / n - mean * mean) / mean};
}

TEST(Random, DistributionsHaveTheirMoments) {
  Random r(42);
  const Moments e = moments([&] { return r.exponential(3.0); });
  EXPECT_NEAR(e.mean, 3.0, 0.05);
  EXPECT_NEAR(e.cv, 1.0, 0.02);
  for (const double cv : {0.5, 1.0, 2.0, 4.0}) {  // Gamma with mean 1: shape 1/cv², scale cv²
    const Moments g = moments([&] { return r.gamma(1 / (cv * cv), cv * cv); });
    EXPECT_NEAR(g.mean, 1.0, 0.05) << cv;
    EXPECT_NEAR(g.cv, cv, 0.1 * cv) << cv;
  }
}

}  // namespace
}  // namespace sluice
