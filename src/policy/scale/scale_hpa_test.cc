// `hpa`: Kubernetes' autoscaler, which places by best fit and remembers what it wanted.
#include "policy/scale/scale_hpa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cluster.h"

namespace sluice::policy {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A function of quarter devices, each instance of which should have two requests at once.
class Hpa : public testing::Test {
 protected:
  Hpa() {
    c.bundle = "hpa";
    FunctionSpec& spec = c.function("a", Millis(100), Millis(10));
    spec.slice = slice(250, 1000);
    spec.inference().scale_target = 2;
  }
  FunctionSpec& spec() { return c.view("a").spec; }
  // The number of instances after a sync period with that concurrency.
  size_t instances(double concurrency) {
    c.view("a").concurrency = concurrency;
    c.tick(Seconds(15));
    return c.instances("a").size();
  }
  ClusterFixture c{4};
};

TEST_F(Hpa, KeepsEachInstanceAtItsTarget) {
  EXPECT_EQ(instances(0), 1u);
  EXPECT_EQ(instances(7), 4u);  // 7 ÷ 2
  EXPECT_EQ(instances(9), 5u);
  EXPECT_EQ(instances(12.001), 6u);
}

TEST_F(Hpa, WithinTheToleranceNothingChanges) {
  EXPECT_EQ(instances(8), 4u);
  EXPECT_EQ(instances(8.7), 4u);
  EXPECT_EQ(instances(8.9), 5u);
}

TEST_F(Hpa, GrowsByDoublingOrByFourAtATime) {
  EXPECT_EQ(instances(1000), 5u);
  EXPECT_EQ(instances(1000), 10u);
  EXPECT_EQ(instances(1000), 16u);  // the cluster is full
  EXPECT_THAT(c.rules("a"), testing::Contains("cluster-full"));
}

TEST_F(Hpa, TheLargestNumberWantedCountsForTheWindow) {
  EXPECT_EQ(instances(8), 4u);
  for (int s = 15; s <= 300; s += 15) EXPECT_EQ(instances(0), 4u) << s;
  EXPECT_EQ(instances(0), 1u);
}

TEST_F(Hpa, AFunctionMayStateAShorterWindow) {
  spec().policy_settings = {{"stabilization", "30s"}};
  EXPECT_EQ(instances(8), 4u);
  EXPECT_EQ(instances(0), 4u);
  EXPECT_EQ(instances(0), 4u);
  EXPECT_EQ(instances(0), 1u);
}

// Ticks come more often than counts.
TEST_F(Hpa, AWindowShorterThanTheCountsIsOver) {
  spec().policy_settings = {{"stabilization", "1s"}};
  for (const auto& [concurrency, count] : {std::pair(8, 4u), {0, 1u}, {8, 4u}}) {
    c.view("a").concurrency = concurrency;
    for (int tick = 0; tick < 4 * 17; ++tick) c.tick(Millis(250));
    EXPECT_EQ(c.instances("a").size(), count) << concurrency;
  }
}

TEST_F(Hpa, WithoutItsMemoryTheWindowBeginsAnew) {
  EXPECT_EQ(instances(8), 4u);
  for (int s = 15; s <= 285; s += 15) instances(0);
  c.memories.clear();
  for (int s = 15; s <= 300; s += 15) EXPECT_EQ(instances(0), 4u) << s;
}

TEST_F(Hpa, AMemoryThatHasExpiredIsNone) {
  EXPECT_EQ(instances(8), 4u);
  c.view("a").concurrency = 0;
  c.tick(Seconds(400));
  EXPECT_EQ(c.instances("a").size(), 4u);
}

TEST_F(Hpa, WhatHasDiedIsReplacedAtOnceAndTheCountWaitsForItsTime) {
  EXPECT_EQ(instances(8), 4u);
  c.now.instances.pop_back();
  c.view("a").concurrency = 40;
  c.tick(Seconds(1));
  EXPECT_EQ(c.instances("a").size(), 4u);
  EXPECT_EQ(instances(40), 8u);
}

TEST_F(Hpa, ANewRevisionGrowsAtOnceToWhatTheOneBeforeHas) {
  spec().slice = slice(250, 500);
  EXPECT_EQ(instances(20), 5u);
  EXPECT_EQ(instances(20), 10u);
  FunctionView& view = c.view("a");
  view.older = {{1, view.spec, 100}};
  view.revision = 2;
  EXPECT_EQ(instances(20), 20u);
}

TEST_F(Hpa, WhatAFunctionThatHasGoneWantedIsForgotten) {
  instances(8);
  c.now.functions.clear();
  c.function("b", Millis(100), Millis(10));
  for (int minute = 0; minute < 61; ++minute) c.tick(Seconds(60));
  EXPECT_THAT(c.memories.at("hpa").numbers, SizeIs(1));
}

TEST_F(Hpa, FillsADeviceBeforeItTakesTheNext) {
  spec().slice = slice(500, 500);
  FunctionSpec& b = c.function("b", Millis(100), Millis(10));
  b.slice = slice(1000, 500);
  c.tick();
  c.tick();
  ASSERT_THAT(c.instances("a"), SizeIs(1));
  ASSERT_THAT(c.instances("b"), SizeIs(1));
  EXPECT_NE(c.instances("a")[0]->device(), c.instances("b")[0]->device());
  EXPECT_EQ(instances(8), 4u);  // as much as fits beside the first
  for (const Instance* i : c.instances("a")) EXPECT_EQ(i->device(), c.instances("a")[0]->device());
}

TEST_F(Hpa, SaysWhatItRestsOn) {
  instances(8);
  std::string text;
  for (const Action& a : c.tick(Seconds(15))) text += a.reason.text;
  EXPECT_THAT(text, IsEmpty());
  c.view("a").concurrency = 12;
  for (const Action& a : c.tick(Seconds(15))) text = a.reason.text;
  EXPECT_THAT(text, HasSubstr("12.0 requests at once; one instance takes 2.0. Started: sm 25 %"));
}

}  // namespace
}  // namespace sluice::policy
