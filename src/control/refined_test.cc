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

std::optional<Profile> taught(const Profile& p, int batch, const InstanceMeasurements& m) {
  const Instance i = instance(batch);
  const Evidence evidence[] = {{&i, &m}};
  return refined(p, evidence);
}

// Milliseconds of a request alone after an instance with that batch was measured; 0: as before.
double after(int batch, const InstanceMeasurements& m) {
  const auto better = taught(estimate(), batch, m);
  return better ? millis(better->points[0].median) : 0;
}

Profile measured() {
  Profile p = estimate();
  p.estimated = 0;
  return p;
}

TEST(Refined, TimesGrowByWhatInstancesNeedBeyondTheEstimate) {
  EXPECT_DOUBLE_EQ(after(1, busy(300, 10)), 30);
  EXPECT_DOUBLE_EQ(after(1, busy(50, 10)), 5);
  const Profile better = taught(estimate(), 1, busy(300, 10)).value();
  EXPECT_EQ(better.points[1].median, Millis(60));
  EXPECT_EQ(better.points[2].median, Millis(72));
  EXPECT_DOUBLE_EQ(better.points[2].throughput, 4 / 0.072);
  EXPECT_EQ(better.estimated, kRefined);
  EXPECT_FALSE(taught(better, 1, busy(310, 10))) << "nearly the same";
  EXPECT_EQ(said_of(estimate(), better).text,
            "Its instances need 3.00 times the estimated time: the estimate is now that, within 10 "
            "% (before: 50 %).");
}
// Four together take 6 ms each.
TEST(Refined, WhatLiesBetweenLargestBatchAndSingleRequestsIsAsExpected) {
  EXPECT_DOUBLE_EQ(after(4, busy(80, 10)), 10);
  EXPECT_DOUBLE_EQ(after(4, busy(30, 10)), 5);
  EXPECT_DOUBLE_EQ(after(1, busy(80, 10)), 8);
}
// Ten a second that stay for 10 ms each, with a device busy for 8 % of the time: batches of 1.25 at most.
TEST(Refined, BatchesAreNoLargerThanWhatTheInstanceHadAtATime) {
  InstanceMeasurements m = busy(80, 10);
  m.latency = Millis(10);
  EXPECT_DOUBLE_EQ(after(4, m), 8) << "four together would be as expected";
  m.latency = Millis(30);
  EXPECT_DOUBLE_EQ(after(4, m), 10);
}
TEST(Refined, InstancesCountByWhatTheyDo) {
  const Instance i = instance(1);
  const InstanceMeasurements slow = busy(400, 10), usual = busy(300, 30);
  const Evidence evidence[] = {{&i, &slow}, {&i, &usual}};
  EXPECT_DOUBLE_EQ(millis(refined(estimate(), evidence)->points[0].median), 17.5);
}
TEST(Refined, TooLittleOrTooWildIsNoEvidence) {
  EXPECT_EQ(after(1, busy(300, 2)), 0) << "too few";
  EXPECT_EQ(after(1, busy(5, 10)), 0) << "too short";
  EXPECT_EQ(after(1, busy(1000, 3)), 0) << "thirty times the estimate";
  EXPECT_FALSE(refined(estimate(), {}));
}
TEST(Refined, WhatWasMeasuredBecomesSlowerAndAgainAsMeasured) {
  EXPECT_FALSE(taught(measured(), 1, busy(50, 10))) << "never faster";
  EXPECT_FALSE(taught(measured(), 1, busy(115, 10))) << "as much as two measurements differ";
  const Profile slower = taught(measured(), 1, busy(150, 10)).value();
  EXPECT_EQ(slower.points[0].median, Millis(15));
  EXPECT_DOUBLE_EQ(slower.live, 1.5);
  EXPECT_EQ(slower.estimated, 0);
  EXPECT_EQ(said_of(measured(), slower).text,
            "Its instances need 1.50 times the measured time, beside their neighbours and with "
            "these requests: decisions go by that.");
  const Profile again = taught(slower, 1, busy(60, 10)).value();
  EXPECT_EQ(again.points, measured().points);
  EXPECT_DOUBLE_EQ(again.live, 1);
}
TEST(Refined, BeyondTwiceTheMeasuredTimeOneMeasuresAgain) {
  const Profile most = taught(measured(), 1, busy(700, 10)).value();
  EXPECT_EQ(most.points[0].median, Millis(20));
  EXPECT_FALSE(taught(most, 1, busy(700, 10))) << "said once";
  EXPECT_EQ(said_of(measured(), most).text,
            "Its instances need more than 2 times the measured time, by which decisions go now: "
            "measure it again (sluice profile --full).");
}

}  // namespace
}  // namespace sluice::control
