// `fast-gshare`: FaST-GShare's Algorithm 1 on profiles, and the bundle over time.
#include "policy/scale/scale_fast_gshare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>

#include "tests/support/cluster.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// sm, quota, throughput
std::vector<Profiled> profile_of(std::vector<std::array<int, 3>> points) {
  std::vector<Profiled> all;
  for (const auto& [sm, quota, rate] : points)
    all.push_back({nullptr, {sm}, {quota}, 1, static_cast<double>(rate)});
  return all;
}

TEST(Algorithm1, TakesTheMostPerResourceThenTheLeastThatSuffices) {
  // T ÷ (S·Q): 83, 125, 104, 62.
  const auto p = profile_of({{120, 1000, 10}, {240, 400, 12}, {240, 1000, 25}, {480, 1000, 30}});
  EXPECT_EQ(most_efficient(p), &p[1]);
  EXPECT_EQ(least_sufficient(p, 5), &p[0]);
  EXPECT_EQ(least_sufficient(p, 10.5), &p[1]);
  EXPECT_EQ(least_sufficient(p, 26), &p[3]);
  EXPECT_EQ(least_sufficient(p, 31), nullptr);
  EXPECT_EQ(most_efficient({}), nullptr);
}

// Throughput is proportional to quota, so many quotas do the same for their area.
TEST(Algorithm1, OfEquallyEfficientOnesTheLargestIsTaken) {
  const auto p = profile_of({{240, 200, 5}, {240, 400, 10}, {240, 1000, 25}, {1000, 1000, 50}});
  EXPECT_EQ(most_efficient(p), &p[2]);
}

// The toy model does 100 requests a second on a whole device, 80 on half, 40 on a quarter: on up to
// half a device 160 for its area. By default every batch that takes up to 100 ms counts.
class FastGshare : public testing::Test {
 protected:
  explicit FastGshare(int devices = 4) : c(devices) {
    c.bundle = "fast-gshare-paper";
    c.function("a", Millis(100), Millis(10));
  }
  // The instances as "sm × quota", by id.
  std::vector<std::pair<int, int>> slices() const {
    std::vector<std::pair<int, int>> all;
    for (const Instance* i : c.instances("a"))
      all.emplace_back(i->slice().sm.permille, i->slice().quota.request.permille);
    return all;
  }
  ClusterFixture c;
};

TEST_F(FastGshare, CoversTheGapWithEfficientInstancesAndOneForTheRest) {
  c.rate("a", 170);
  c.tick();
  EXPECT_THAT(slices(), ElementsAre(std::pair(500, 1000), std::pair(500, 1000),
                                    std::pair(250, 400)));  // 80 + 80 + 16
  EXPECT_THAT(c.rules("a"), ElementsAre("most-efficient", "most-efficient", "least-sufficient"));
  EXPECT_THAT(c.tick(), IsEmpty()) << "those that started count";
}

TEST_F(FastGshare, AnInstanceRequestsItsQuotaAndMayBorrow) {
  c.rate("a", 10);
  c.tick();
  EXPECT_EQ(c.instances("a").at(0)->slice().quota, (Quota{{400}, kWhole}));
  EXPECT_EQ(c.instances("a").at(0)->arbiter, "multi_token");
}

TEST_F(FastGshare, TheLeastEfficientLeaveFirstWhileTheRestSuffices) {
  c.instance("small", "a", "d0", slice(1000, 500), {});  // 50/s, 100 for its area
  c.instance("x", "a", "d1", slice(500, 1000), {});      // 80/s, 160
  c.instance("y", "a", "d1", slice(500, 1000), {{500}, kNone});
  c.rate("a", 165);
  EXPECT_THAT(c.tick(), IsEmpty());
  c.rate("a", 159);
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("scale-in"));
  EXPECT_EQ(only<StopInstance>(c.tick()).size(), 0u);
  EXPECT_THAT(slices(), ElementsAre(std::pair(500, 1000), std::pair(500, 1000)));
  c.rate("a", 81);
  EXPECT_THAT(c.tick(), IsEmpty()) << "the front does not fit: stop there";
}

TEST_F(FastGshare, MinReplicasStayAndMaxReplicasBound) {
  FunctionSpec& spec = c.view("a").spec;
  spec.inference().min_replicas = 2;
  spec.inference().max_replicas = 3;
  c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(2));
  EXPECT_THAT(c.rules("a"), ElementsAre("keep-alive", "keep-alive"));
  c.rate("a", 1e4);
  c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(3));
  EXPECT_EQ(c.rules("a").back(), "max-replicas");
  c.rate("a", 0);
  c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(2));
  spec.inference().max_replicas = 1;
  spec.inference().min_replicas = 1;
  c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(1));
}

TEST_F(FastGshare, ReachesZeroAndWakesForARequest) {
  c.view("a").spec.inference().min_replicas = 0;
  c.view("a").spec.inference().scale_to_zero_after = Seconds(30);
  EXPECT_THAT(c.tick(), IsEmpty());
  c.view("a").queued = 1;
  c.view("a").last_request = c.now.now;
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("keep-alive"));
  c.view("a").queued = 0;
  EXPECT_THAT(c.tick(), IsEmpty());
  c.tick(Seconds(30));
  EXPECT_THAT(c.rules("a"), ElementsAre("scale-in"));
  EXPECT_THAT(c.instances("a"), IsEmpty());
}

// The rate of ten seconds is noisy: a hundredth more is worth no start.
TEST_F(FastGshare, AGapWithinTheSlackStartsNothing) {
  c.rate("a", 160);
  c.tick();
  c.rate("a", 162);
  EXPECT_THAT(c.tick(), IsEmpty());
  c.rate("a", 164);
  EXPECT_THAT(c.tick(), SizeIs(1));
}

TEST_F(FastGshare, TheTunedOneKeepsHeadroom) {
  c.bundle = "fast-gshare";
  c.rate("a", 100);
  c.tick();
  EXPECT_GE(c.capacity("a"), 150);
  EXPECT_LT(c.capacity("a"), 180);
}

TEST_F(FastGshare, WhereTheBestDoesNotFitTheNextBestIsTaken) {
  ClusterFixture full(1);
  full.bundle = "fast-gshare-paper";
  full.function("a", Millis(100), Millis(10));
  full.instance("x", "x", "d0", slice(750, 700), {});
  full.rate("a", 1000);
  full.tick();
  EXPECT_EQ(full.rules("a").back(), "cluster-full");
  EXPECT_GE(full.capacity("a"), 40);  // the quarter beside x
}

TEST_F(FastGshare, AnUnmeasuredTypeTakesNothing) {
  c.device("d0").millicores = 4000;
  c.predictor.slowness[type_of(c.device("d0"))] = 0;
  c.rate("a", 500);
  c.tick();
  for (const Instance* i : c.instances("a")) EXPECT_NE(i->device(), "d0");
  EXPECT_GE(c.capacity("a"), 480);
}

TEST_F(FastGshare, AModelThatWasNeverMeasuredKeepsItsInstances) {
  c.predictor.alone.clear();
  c.rate("a", 500);
  c.tick();
  EXPECT_THAT(slices(), ElementsAre(std::pair(1000, 250)));
  EXPECT_THAT(c.tick(), IsEmpty());
}

TEST_F(FastGshare, LeavesACordonedDeviceMakeBeforeBreak) {
  c.rate("a", 70);
  c.tick();
  ASSERT_THAT(c.instances("a"), SizeIs(1));
  c.device(c.instances("a")[0]->device()).drained = true;
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("least-sufficient"));
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("drained-device"));
  EXPECT_THAT(c.tick(), IsEmpty());
}

TEST_F(FastGshare, LeavesACordonedDeviceAtMaxReplicasToo) {
  c.view("a").spec.inference().max_replicas = 1;
  c.rate("a", 500);
  c.tick();
  ASSERT_THAT(c.instances("a"), SizeIs(1));
  const DeviceId cordoned = c.instances("a")[0]->device();
  c.device(cordoned).drained = true;
  c.tick();
  c.tick();
  ASSERT_THAT(c.instances("a"), SizeIs(1));
  EXPECT_NE(c.instances("a")[0]->device(), cordoned);
}

// The place that an instance left is taken by the next one of its size, though free time lies
// around it.
TEST_F(FastGshare, AReleasedRectangleIsTakenAgain) {
  c.instance("other", "x", "d0", slice(250, 200));
  c.instance("wide", "a", "d0", slice(1000, 200), {kNone, {600}});  // 20/s, 100 for its area
  c.instance("half", "a", "d1", slice(500, 1000));                  // 80/s, 160
  const auto& remembered = c.memories["fast-gshare-paper"].numbers;
  c.rate("a", 75);
  c.tick();
  ASSERT_THAT(slices(), ElementsAre(std::pair(500, 1000)));
  EXPECT_EQ(remembered.at("d0"), (std::vector<double>{0, 1000, 600, 200}));
  c.rate("a", 98);
  const auto started = only<StartInstance>(c.tick());
  ASSERT_THAT(started, SizeIs(1));
  EXPECT_EQ(started[0].first().slice.sm, kWhole);
  EXPECT_EQ(started[0].first().position, (Position{kNone, {600}}));
  c.tick();
  EXPECT_THAT(remembered, IsEmpty()) << "another lies there";
}

TEST_F(FastGshare, NothingIsRememberedOfADeviceThatHasGone) {
  c.memories["fast-gshare-paper"] = {1, {{"gone", {0, 500, 0, 500}}, {"d0", {0, 500, 0, 500}}}};
  c.rate("a", 1);
  c.tick();
  EXPECT_THAT(c.memories["fast-gshare-paper"].numbers, SizeIs(1));
}

// A staircase of ten narrow instances leaves many small rectangles. They move down to make one,
// and the new instance starts once they have left its place: tick() checks each step.
TEST(FastGshareRestructures, InstancesMoveInTimeBeforeAnotherTakesTheirPlace) {
  ClusterFixture c(1, {100});
  c.bundle = "fast-gshare-paper";
  c.function("a", Seconds(1), Millis(10));
  c.function("b", Millis(100), Millis(10));
  for (int i = 0; i < 10; ++i)
    c.instance("a" + std::to_string(i), "a", "d0", slice(100, 200),
               {{100 * i}, {100 + 37 * ((i * 7) % 10)}});
  c.rate("a", 32);  // 3.2/s each
  c.rate("b", 10);
  const std::vector<Action> actions = c.tick();
  EXPECT_THAT(c.rules("a"), testing::AllOf(SizeIs(10), testing::Each("shift")));
  ASSERT_THAT(c.instances("b"), SizeIs(1));
  EXPECT_EQ(c.instances("b")[0]->position(), (Position{kNone, {200}}));
  for (const Instance* i : c.instances("a")) EXPECT_EQ(i->position().time_begin, kNone);
  EXPECT_THAT(c.tick(), IsEmpty());
}

TEST_F(FastGshare, AReadyInstanceStaysUntilABetterOneIsReady) {
  c.instance("a1", "a", "d0", slice(1000, 1000));  // 100 for its area
  c.instance("a2", "a", "d1", slice(500, 1000));   // 160
  c.now.instances[1].state = InstanceState::kStarting;
  c.rate("a", 6);
  EXPECT_THAT(c.decide(), IsEmpty());
  c.tick();  // it is ready
  EXPECT_THAT(c.rules("a"), ElementsAre("scale-in"));
}

}  // namespace
}  // namespace sluice::policy
