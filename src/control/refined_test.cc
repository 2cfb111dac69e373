#include "control/refined.h"

#include <gtest/gtest.h>

#include <tuple>

namespace sluice::control {
namespace {

// 10 ms alone, 24 ms for four.
Profile estimate() {
  Profile p{.model = "/m.pt", .points = {}, .estimated = 0.5};
  for (const auto& [batch, quota, median] :
       {std::tuple(1, 1000, Millis(10)), {1, 500, Millis(20)}, {4, 1000, Millis(24)}})
    p.points.push_back({.at = {batch, kWhole, {quota}}, .median = median, .p95 = median});
  return p;
}

Instance instance(int batch) {
  Instance i{.id = "i"};
  i.batch = batch;
  i.first().slice.sm = kWhole;
  return i;
}

InstanceMeasurements busy(int permille, double rate) {
  return {.instance = "i", .busy = {permille}, .inferences_per_second = rate};
}

// Milliseconds of a request alone after an instance with that batch was measured; 0: as before.
double after(int batch, const InstanceMeasurements& m) {
  const auto better = refined(estimate(), instance(batch), m);
  return better ? millis(better->points[0].median) : 0;
}

TEST(Refined, TimesGrowByWhatInstancesNeedBeyondTheEstimate) {
  EXPECT_DOUBLE_EQ(after(1, busy(300, 10)), 30);
  EXPECT_DOUBLE_EQ(after(1, busy(50, 10)), 5);
  const Profile better = refined(estimate(), instance(1), busy(300, 10)).value();
  EXPECT_EQ(better.points[1].median, Millis(60));
  EXPECT_EQ(better.points[2].median, Millis(72));
  EXPECT_DOUBLE_EQ(better.points[2].throughput, 4 / 0.072);
  EXPECT_EQ(better.estimated, kRefined);
  EXPECT_FALSE(refined(better, instance(1), busy(310, 10))) << "nearly the same";
  EXPECT_EQ(said_of(estimate(), better).text,
            "Its instances need 3.00 times the estimated time: the estimate is now that, within 20 "
            "% (before: 50 %).");
}
// Four together take 6 ms each.
TEST(Refined, WhatLiesBetweenLargestBatchAndSingleRequestsIsAsExpected) {
  EXPECT_DOUBLE_EQ(after(4, busy(80, 10)), 10);
  EXPECT_DOUBLE_EQ(after(4, busy(30, 10)), 5);
  EXPECT_DOUBLE_EQ(after(1, busy(80, 10)), 8);
}
TEST(Refined, TooLittleOrTooWildIsNoEvidence) {
  EXPECT_EQ(after(1, busy(300, 2)), 0) << "too few";
  EXPECT_EQ(after(1, busy(5, 10)), 0) << "too short";
  EXPECT_EQ(after(1, busy(1000, 3)), 0) << "thirty times the estimate";
  Profile measured = estimate();
  measured.estimated = 0;
  EXPECT_FALSE(refined(measured, instance(1), busy(300, 10)));
}

}  // namespace
}  // namespace sluice::control
