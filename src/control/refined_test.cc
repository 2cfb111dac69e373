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

// What one look teaches, after an equal one.
std::optional<Profile> taught(const Profile& p, int batch, const InstanceMeasurements& m) {
  const Instance i = instance(batch);
  const Device device{.kind = DeviceKind::kCpu, .millicores = 1000};
  const Evidence evidence[] = {{&i, &m, &device}};
  const std::optional<Need> need = need_of(p, evidence);
  return need ? refined(p, *need, &*need) : std::nullopt;
}

// Milliseconds of a request alone after an instance with that batch was measured; 0: as before.
double after(int batch, const InstanceMeasurements& m) {
  const auto better = taught(estimate(), batch, m);
  return better ? millis(better->live_points()[0].median) : 0;
}

Profile measured(double live = 1) {
  Profile p = estimate();
  p.estimated = 0;
  p.live = live;
  return p;
}
// Its factor after instances needed so many times as long as it says, in one look and the next.
double live_after(double live, double then, double now) {
  const Need before{then, 0};
  const auto better = refined(measured(live), {now, 0}, &before);
  return better ? better->live : live;
}

TEST(Refined, TimesGrowByWhatInstancesNeedBeyondTheEstimate) {
  EXPECT_DOUBLE_EQ(after(1, busy(300, 10)), 30);
  EXPECT_DOUBLE_EQ(after(1, busy(50, 10)), 5);
  const Profile better = taught(estimate(), 1, busy(300, 10)).value();
  EXPECT_EQ(better.points, estimate().points);
  EXPECT_EQ(better.live_points()[1].median, Millis(60));
  EXPECT_EQ(better.live_points()[2].median, Millis(72));
  EXPECT_EQ(better.estimated, kRefined);
  EXPECT_FALSE(taught(better, 1, busy(310, 10))) << "nearly the same";
  EXPECT_EQ(said_of(estimate(), better).text,
            "Its instances need 3.00 times as long as estimated: the estimate is now that, off by "
            "about 10 % (before: 50 %).");
}
// Four together take 6 ms each.
TEST(Refined, WhatLiesBetweenLargestBatchAndSingleRequestsIsAsExpected) {
  EXPECT_DOUBLE_EQ(after(4, busy(120, 10)), 12);
  EXPECT_DOUBLE_EQ(after(4, busy(30, 10)), 5);
  EXPECT_DOUBLE_EQ(after(1, busy(80, 10)), 8);
  EXPECT_FALSE(taught(estimate(), 4, busy(80, 10))) << "nor is it surer for that";
}
// Ten a second that stay for 10 ms each, with a device busy for 8 % of the time: batches of 1.25 at
// most.
TEST(Refined, BatchesAreNoLargerThanWhatTheInstanceHadAtATime) {
  InstanceMeasurements m = busy(80, 10);
  m.latency = Millis(10);
  EXPECT_DOUBLE_EQ(after(4, m), 8) << "four together would be as expected";
  m.latency = Millis(40);
  EXPECT_FALSE(taught(estimate(), 4, m));
}
TEST(Refined, InstancesCountByWhatTheyDo) {
  const Instance i = instance(1);
  const Device device{};
  const InstanceMeasurements slow = busy(400, 10), usual = busy(300, 30);
  const Evidence evidence[] = {{&i, &slow, &device}, {&i, &usual, &device}};
  EXPECT_DOUBLE_EQ(need_of(estimate(), evidence)->factor, 1.75);
}
TEST(Refined, TooLittleOrTooWildIsNoEvidence) {
  EXPECT_EQ(after(1, busy(300, 2)), 0) << "too few";
  EXPECT_EQ(after(1, busy(5, 10)), 0) << "too short";
  EXPECT_EQ(after(1, busy(1000, 3)), 0) << "thirty times the estimate";
  EXPECT_FALSE(need_of(estimate(), {}));
}
TEST(Refined, TwoLooksHaveToAgreeExceptForTheFirstOfAnEstimate) {
  EXPECT_TRUE(refined(estimate(), {2, 0}, nullptr));
  EXPECT_FALSE(refined(measured(), {2, 0}, nullptr));
  Profile corrected = estimate();
  corrected.estimated = kRefined, corrected.live = 1.5;
  EXPECT_FALSE(refined(corrected, {2, 0}, nullptr));
  EXPECT_DOUBLE_EQ(live_after(1, 1.8, 1.5), 1.5);
  EXPECT_DOUBLE_EQ(live_after(1, 1.5, 1.8), 1.5);
  EXPECT_DOUBLE_EQ(live_after(1.5, 0.5, 1.5), 1.5) << "they say the opposite";
}
TEST(Refined, TheBoundIsNoNarrowerThanWhatTheLooksAreApart) {
  EXPECT_DOUBLE_EQ(refined(estimate(), {1.3, 0}, nullptr)->estimated, 0.15) << "half of one look";
  EXPECT_DOUBLE_EQ(refined(estimate(), {0.4, 0}, nullptr)->estimated, 0.75);
  Profile sure = estimate();
  sure.estimated = kRefined, sure.live = 1.5;
  const Need before{0.8, 0};
  EXPECT_DOUBLE_EQ(refined(sure, {1.2, 0}, &before)->estimated, 0.5) << "they contradict it";
  EXPECT_DOUBLE_EQ(refined(sure, {1.2, 0}, &before)->live, 1.5);
  EXPECT_DOUBLE_EQ(refined(sure, {8, 0}, &before)->estimated, 1) << "no more than all of it";
  const Need like{1.01, 0};
  EXPECT_FALSE(refined(sure, {1.02, 0}, &like)) << "they agree: nothing new";
}
TEST(Refined, WhatWasMeasuredBecomesSlowerAndAgainAsMeasured) {
  EXPECT_DOUBLE_EQ(live_after(1, 0.5, 0.5), 1) << "never faster";
  EXPECT_DOUBLE_EQ(live_after(1, 1.15, 1.15), 1) << "as much as two measurements differ";
  EXPECT_DOUBLE_EQ(live_after(1, 1.3, 1.3), 1.3);
  EXPECT_DOUBLE_EQ(live_after(1.3, 0.9, 0.9), 1.3) << "nearly the same";
  EXPECT_DOUBLE_EQ(live_after(1.3, 0.8, 0.8), 1);
  EXPECT_DOUBLE_EQ(live_after(1.7, 3, 3), kMostCorrected);
  EXPECT_DOUBLE_EQ(live_after(2, 1.5, 1.5), kMostCorrected);
  EXPECT_DOUBLE_EQ(live_after(2, 0.3, 0.3), 1);
}
TEST(Refined, SaysWhatBecomesOfAMeasurement) {
  EXPECT_EQ(said_of(measured(), measured(1.5)).text,
            "Its instances need 1.50 times as long as was measured, beside their neighbours and "
            "with these requests: decisions go by that.");
  EXPECT_EQ(said_of(measured(1.5), measured(2)).text,
            "Its instances need 2 times as long as was measured, or more: measure it again (sluice "
            "profile --full).");
  EXPECT_EQ(said_of(measured(1.5), measured()).text,
            "Its instances need as long as was measured again.");
}
// Two fifths of a core are busy for 2.5 s with a second of its work.
TEST(Refined, APartOfACoreIsBusyForLongerThanItWorks) {
  const Instance i = instance(4);
  const Device part{.kind = DeviceKind::kCpu, .millicores = 400};
  InstanceMeasurements m = busy(240, 40);  // four at a time, 24 ms each
  m.latency = Millis(10);
  const Evidence evidence[] = {{&i, &m, &part}};
  EXPECT_DOUBLE_EQ(need_of(estimate(), evidence)->factor, 1);
}

}  // namespace
}  // namespace sluice::control
