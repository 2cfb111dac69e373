#include "predict/residuals.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sluice::predict {
namespace {

const Configuration kHere{4, Share{500}, Share{600}};

TEST(Residuals, WithoutMeasurementsTheEstimateStands) {
  const Residuals none(Kernel(), {});
  EXPECT_EQ(none.at(kHere).log, 0);
  EXPECT_NEAR(none.at(kHere).deviation, std::sqrt(0.016 + 0.0024), 1e-9);
}

TEST(Residuals, AMeasurementIsBelievedNearItself) {
  const Residuals r(Kernel(), {{kHere, 0.3}});
  const auto here = r.at(kHere), near = r.at({4, Share{550}, Share{600}}),
             far = r.at({1, Share{50}, Share{100}});
  EXPECT_GT(here.log, 0.25);
  EXPECT_LT(here.log, 0.3);  // it may be noise
  EXPECT_LT(near.log, here.log);
  EXPECT_GT(near.log, far.log);
  EXPECT_LT(here.deviation, near.deviation);
  EXPECT_LT(near.deviation, far.deviation);
}

TEST(Residuals, RepeatedMeasurementsAreBelievedMore) {
  const Residuals once(Kernel(), {{kHere, 0.3}});
  const Residuals often(Kernel(), {{kHere, 0.3}, {kHere, 0.3}, {kHere, 0.3}});
  EXPECT_GT(often.at(kHere).log, once.at(kHere).log);
  EXPECT_LT(often.at(kHere).deviation, once.at(kHere).deviation);
}

// Solved by hand for two measurements: K⁻¹ of a 2 × 2 matrix.
TEST(Residuals, TwoMeasurementsAsByHand) {
  const Kernel k{.near = 1, .state = 0, .noise = 0.5, .near_b = 1e9, .near_s = 1e9, .near_q = 1};
  const Share half{500};
  const Residuals r(k, {{{1, kWhole, kWhole}, 1}, {{1, kWhole, half}, 0}});
  const double c = std::exp(-std::log(2));  // between them
  const double determinant = 1.5 * 1.5 - c * c;
  EXPECT_NEAR(r.at({1, kWhole, kWhole}).log, (1.5 * 1 - c * c) / determinant, 1e-9);
}

}  // namespace
}  // namespace sluice::predict
