// `dilu`: lazy scaling by the seconds of a window, over what the profiling finds.
#include "policy/scale/scale_dilu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/cluster.h"

namespace sluice::policy {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

// Returns a window of 40 seconds, `seconds` of which ask for `rate`, the others for `rest`.
std::vector<double> window_with(int seconds, double rate, double rest) {
  std::vector<double> all(40, rest);
  std::fill(all.begin(), all.begin() + seconds, rate);
  return all;
}

// Three instances that do 10/s each.
int change(const std::vector<double>& window, const DiluSettings& settings = {}) {
  return lazy_scale(settings, window, 30, 10).more;
}

TEST(LazyScale, OutAfterTwentySecondsAboveTheThroughput) {
  EXPECT_EQ(change(window_with(19, 35, 25)), 0);
  EXPECT_EQ(change(window_with(20, 35, 25)), 1);
  EXPECT_EQ(change(window_with(40, 30, 25)), 0) << "as much is not more";
  EXPECT_EQ(change(window_with(20, 95, 25)), 7) << "all at once";
  EXPECT_EQ(change(window_with(10, 35, 25), {.scale_out_after = 10}), 1);
  EXPECT_EQ(change(std::vector<double>(19, 100)), 0) << "a window that began anew";
}

TEST(LazyScale, InAfterMoreThanThirtySecondsBelowOneLess) {
  EXPECT_EQ(change(window_with(30, 19, 25)), 0);
  EXPECT_EQ(change(window_with(31, 19, 25)), -1);
  EXPECT_EQ(change(window_with(40, 20, 25)), 0);
  EXPECT_EQ(change(window_with(40, 0, 0)), -1) << "one by one";
}

TEST(LazyScale, TheLastStaysAndTheUnknownDoesNotScale) {
  EXPECT_EQ(lazy_scale({}, window_with(40, 0, 0), 10, 10).more, 0);
  EXPECT_EQ(lazy_scale({}, window_with(40, 100, 0), 0, 0).more, 0);
}

// A function whose requests take 10 ms on a whole device, within 100 ms.
class Dilu : public testing::Test {
 protected:
  explicit Dilu(const std::string& bundle = "dilu-paper") {
    c.bundle = bundle;
    c.function("a", Millis(100), Millis(10));
  }
  // A second with so many arrivals, then a decision.
  const std::vector<Action>& second(uint32_t arrivals) {
    history->add(at, at + Seconds(1), arrivals);
    at += Seconds(1);
    c.view("a").arrivals = history;
    return c.tick(Seconds(1));
  }
  void seconds(int n, uint32_t arrivals) {
    for (int i = 0; i < n; ++i) second(arrivals);
  }

  ClusterFixture c{4};
  std::shared_ptr<ArrivalHistory> history = std::make_shared<ArrivalHistory>();
  Nanos at = Seconds(0);
};

TEST_F(Dilu, HoldsTheStarsRequestAndLimit) {
  second(0);
  ASSERT_THAT(c.instances("a"), SizeIs(1));
  // 10 ms ÷ 20 % is the least share within half of the objective.
  EXPECT_EQ(c.instances("a")[0]->slice().sm, kWhole);
  EXPECT_EQ(c.instances("a")[0]->slice().quota, (Quota{{200}, {400}}));
  EXPECT_EQ(c.instances("a")[0]->arbiter, "introspective");
  EXPECT_EQ(c.instances("a")[0]->slice().tolerance, 0);
}

TEST_F(Dilu, AnswersAStepAfterTwentySecondsAndAtOnce) {
  second(0);
  seconds(19, 90);
  EXPECT_THAT(c.instances("a"), SizeIs(1)) << "the arbiter carries it meanwhile";
  second(90);
  EXPECT_THAT(c.instances("a"), SizeIs(5)) << "each does 20/s";
  seconds(40, 90);
  EXPECT_THAT(c.instances("a"), SizeIs(5));
}

TEST_F(Dilu, ABurstOfSecondsStartsNothing) {
  second(0);
  for (int i = 0; i < 20; ++i) {
    seconds(4, 90);
    seconds(6, 10);
  }
  EXPECT_THAT(c.instances("a"), SizeIs(1));
}

TEST_F(Dilu, StopsOneByOneDownToTheLeast) {
  c.view("a").spec.inference().min_replicas = 2;
  second(0);
  seconds(20, 90);
  ASSERT_THAT(c.instances("a"), SizeIs(5));
  seconds(30, 0);
  EXPECT_THAT(c.instances("a"), SizeIs(5));
  second(0);
  EXPECT_THAT(c.instances("a"), SizeIs(4));
  seconds(60, 0);
  EXPECT_THAT(c.instances("a"), SizeIs(2));
}

TEST_F(Dilu, KeepsToMaxReplicas) {
  c.view("a").spec.inference().max_replicas = 3;
  second(0);
  seconds(60, 90);
  EXPECT_THAT(c.instances("a"), SizeIs(3));
}

TEST_F(Dilu, ReplacesADeadInstanceAndThoseOfCordonedDevices) {
  second(0);
  seconds(21, 90);
  ASSERT_THAT(c.instances("a"), SizeIs(5));
  c.now.instances.erase(c.now.instances.begin());
  second(90);
  EXPECT_THAT(c.instances("a"), SizeIs(5));
  const DeviceId cordoned = c.instances("a")[0]->device();
  c.device(cordoned).drained = true;
  seconds(3, 90);
  EXPECT_THAT(c.instances("a"), SizeIs(5));
  for (const Instance* i : c.instances("a")) EXPECT_NE(i->device(), cordoned);
}

TEST_F(Dilu, WhatFoundNoPlaceIsNotStartedOnceTheLoadHasGone) {
  for (const char* id : {"d1", "d2", "d3"}) c.device(id).drained = true;
  c.function("b", Millis(15), Millis(10));  // holds 70 % of d0
  second(0);
  seconds(20, 90);
  EXPECT_THAT(c.instances("a"), SizeIs(1)) << "d0 is full";
  seconds(40, 15);
  for (const char* id : {"d1", "d2", "d3"}) c.device(id).drained = false;
  seconds(1, 15);
  EXPECT_THAT(c.instances("a"), SizeIs(1)) << "it does 20/s";
  seconds(20, 90);
  EXPECT_THAT(c.instances("a"), SizeIs(5));
}

TEST_F(Dilu, WithoutMemoryTheRunningInstancesCount) {
  second(0);
  seconds(20, 90);
  c.memories.clear();
  second(90);
  EXPECT_THAT(c.instances("a"), SizeIs(5));
}

TEST_F(Dilu, HoldsItsFilesSliceWhileNeverMeasured) {
  c.function("b", Millis(100), Nanos(0)).slice = slice(250, 300);
  second(0);
  ASSERT_THAT(c.instances("b"), SizeIs(1));
  EXPECT_EQ(c.instances("b")[0]->slice().quota.request, Share{300});
  EXPECT_EQ(c.instances("b")[0]->slice().sm, Share{250});
}

TEST_F(Dilu, WhereNothingIsInTimeTheWholeObjectiveOrTheWholeDevice) {
  c.function("tight", Millis(15), Millis(10));
  c.function("hopeless", Millis(5), Millis(10));
  second(0);
  EXPECT_EQ(c.instances("tight")[0]->slice().quota, (Quota{{700}, {1000}}));
  EXPECT_EQ(c.instances("hopeless")[0]->slice().quota, (Quota{kWhole, kWhole}));
}

TEST_F(Dilu, ReadsAProfileOfSmsIfTold) {
  c.view("a").spec.policy_settings = {{"sm_profile", "true"}, {"tolerance", "1.3"}};
  c.view("a").spec.policy = "dilu-paper";
  const std::vector<Action> actions = second(0);
  // Of the toy's curve, 20 % of the SMs are worth 32 %.
  EXPECT_EQ(c.instances("a")[0]->slice().quota.request, Share{200});
  EXPECT_EQ(c.instances("a")[0]->slice().tolerance, 1300);
  EXPECT_EQ(c.instances("a")[0]->slice().slo, Millis(100));
  ASSERT_THAT(actions, SizeIs(1));
  EXPECT_THAT(actions[0].reason.text, HasSubstr("read as elastic"));
}

// The bundles over Dilu's scaling with another arbiter than its own.
std::vector<std::string> with_fixed_shares() {
  std::vector<std::string> names;
  for (const Bundle& b : bundles())
    if (b.scale == scale_dilu && b.arbiter != "introspective") names.emplace_back(b.name);
  return names;
}

class FixedShares : public Dilu, public testing::WithParamInterface<std::string> {
 protected:
  FixedShares() : Dilu(GetParam()) {}
};

// Requests never exceed a device; limits may, up to γ.
TEST_P(FixedShares, PromiseMoreThanADeviceInLimitsAlone) {
  for (int i = 0; i < 6; ++i) c.function("f" + std::to_string(i), Millis(30), Millis(10));
  second(0);
  std::map<DeviceId, Quota> sums;
  for (const Instance& i : c.now.instances) {
    Quota& sum = sums[i.device()];
    sum = {sum.request + i.slice().quota.request, sum.limit + i.slice().quota.limit};
  }
  int over = 0;
  for (const auto& [device, sum] : sums) {
    EXPECT_LE(sum.request, kWhole) << device;
    EXPECT_LE(sum.limit, Share{1500}) << device;
    over += sum.limit > kWhole;
  }
  EXPECT_GT(over, 0);
  EXPECT_EQ(c.instances("a")[0]->arbiter, find_bundle(GetParam())->arbiter);
}
INSTANTIATE_TEST_SUITE_P(Bundles, FixedShares, testing::ValuesIn(with_fixed_shares()));

}  // namespace
}  // namespace sluice::policy
