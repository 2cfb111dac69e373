#include "cli/profile_plan.h"

#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

constexpr Share kTenth{100};

TEST(ProfilePlan, ALargerBatchIsEstimatedFromTheLargestThatWasMeasured) {
  ProfilePlan plan{.per_point = Millis(400)};
  EXPECT_EQ(plan.estimate({8, kWhole, kWhole}), Millis(400)) << "nothing is known";
  plan.learn({.at = {1, kWhole, kWhole}, .median = Seconds(3)});
  plan.learn({.at = {2, kWhole, kWhole}, .median = Seconds(5)});
  // One to warm up, and three.
  EXPECT_EQ(plan.estimate({2, kWhole, kWhole}), Seconds(20));
  EXPECT_EQ(plan.estimate({8, kWhole, kWhole}), Seconds(80)) << "four times batch 2";
  EXPECT_EQ(plan.estimate({8, kWhole, kTenth}), Seconds(800));
  plan.points = {{2, kWhole, kWhole}, {8, kWhole, kWhole}};
  EXPECT_EQ(plan.left_after(1), Seconds(80));
}

TEST(ProfilePlan, UtilisationIsBusyTimeOverTheTrial) {
  EXPECT_EQ(utilisation(Millis(160), Millis(400)), Share{400});
  EXPECT_EQ(utilisation(Millis(401), Millis(400)), kWhole) << "one clock is not the other";
  EXPECT_EQ(utilisation(Micros(1), Seconds(10)), Share{1}) << "measured, and next to nothing";
  EXPECT_EQ(utilisation(Nanos(0), Seconds(1)), kNone);
}

}  // namespace
}  // namespace sluice::cli
