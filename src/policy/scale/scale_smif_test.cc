// `smif`: which kind of device, and how many, over time.
#include "policy/scale/scale_smif.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cluster.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// d0 and d1 are of a weak and cheap type, the others of a strong one: 3.5 times as fast at five
// times the price. An instance takes 10 ms on a strong device.
class Smif : public testing::Test {
 public:
  Smif() : c(4, kWhole) {
    c.bundle = "smif";
    for (Device& d : c.now.devices)
      d.kind = DeviceKind::kCuda, d.model = "strong", d.price_per_hour = 5;
    for (const char* id : {"d0", "d1"})
      c.device(id).model = "weak", c.device(id).price_per_hour = 1;
    c.predictor.slowness[{"weak"}] = 3.5;
    c.function("a", Millis(100), Millis(10));
  }
  // The devices of a's instances.
  std::string devices() {
    std::string all;
    for (const Instance* i : c.instances("a")) all += i->device();
    return all;
  }
  void load(double rate) { c.rate("a", rate), c.view("a").concurrency = rate > 0 ? 1 : 0; }
  void run(int ticks) {
    for (int i = 0; i < ticks; ++i) c.tick(Seconds(1));
  }
  // Each request is of one inference.
  void measure(const InstanceId& id, int busy, double answered, double slow = 0) {
    auto all = c.now.measured ? *c.now.measured : MeasuredInstances{};
    std::erase_if(all, [&](const auto& m) { return m.instance == id; });
    all.push_back({.instance = id,
                   .busy = {busy},
                   .inferences_per_second = answered,
                   .answers_per_second = answered,
                   .late = slow,
                   .slow = slow});
    std::ranges::sort(all, {}, &InstanceMeasurements::instance);
    c.now.measured = std::make_shared<MeasuredInstances>(std::move(all));
  }
  ClusterFixture c;
};

TEST_F(Smif, TheCheapestKindThatIsInTimeCarriesTheLoad) {
  load(20);  // weak: 28.6/s, at 80 % 22.9/s
  run(2);
  EXPECT_EQ(devices(), "d0");
  load(40);
  run(1);
  EXPECT_EQ(devices(), "d0d1");
  EXPECT_THAT(c.rules("a"), ElementsAre("homogeneous-up"));
}

// `deviceTypes` names them in this order.
TEST_F(Smif, AStatedOrderOfTypesComesBeforeTheirCost) {
  c.view("a").spec.device = "cuda";
  c.view("a").spec.device_types = {"strong", "weak"};
  load(20);
  run(2);
  EXPECT_EQ(devices(), "d2");
  run(300);
  EXPECT_EQ(devices(), "d2") << "the last instance does not move to a type that comes later";
  load(1000);
  run(6);
  EXPECT_EQ(devices(), "d2d3d0d1");
}

TEST_F(Smif, AFullKindIsFollowedByTheNext) {
  load(40);
  run(1);
  load(60);
  run(1);
  EXPECT_EQ(devices(), "d0d1d2");
  EXPECT_THAT(c.rules("a"), ElementsAre("heterogeneous-up"));
  load(1000);
  run(1);
  EXPECT_EQ(devices(), "d0d1d2d3");
  EXPECT_THAT(c.rules("a"), ElementsAre("homogeneous-up", "cluster-full"));
}

TEST_F(Smif, AKindThatIsTooSlowAloneIsNotChosen) {
  c.view("a").spec.inference().slo.latency = Millis(30);
  load(20);
  run(1);
  EXPECT_EQ(devices(), "d2");
}

TEST_F(Smif, TheMeasuredServiceRateReplacesThePredictedOne) {
  load(20);
  run(2);
  measure("i000001", 1000, 15);
  run(1);
  EXPECT_EQ(devices(), "d0d1");
  EXPECT_THAT(c.rules("a"), ElementsAre("homogeneous-up"));
}

TEST_F(Smif, LateRequestsAddOneInstanceAndItIsJudgedAnew) {
  load(20);
  run(2);
  c.view("a").latency = {Millis(50), Millis(120), Millis(200)};
  run(8);
  EXPECT_EQ(devices(), "d0") << "latencies of before it was ready";
  run(2);
  EXPECT_EQ(devices(), "d0d1");
  run(8);
  EXPECT_EQ(devices(), "d0d1");
  run(2);
  EXPECT_EQ(devices(), "d0d1d2");
}

// What is refused has no latency.
TEST_F(Smif, RefusedRequestsAddOneInstanceAsLateOnesDo) {
  load(20);
  run(2);
  c.view("a").latency = {Millis(50), Millis(60), Millis(70)};
  c.view("a").violating = true;
  run(10);
  EXPECT_EQ(devices(), "d0d1");
}

TEST_F(Smif, AKindThatIsLateThoughNotBusyIsLeft) {
  load(5);
  run(2);
  c.view("a").latency = {Millis(150), Millis(150), Millis(150)};
  measure("i000001", 500, 5, 1);
  run(10);
  EXPECT_EQ(devices(), "d0d2");
  EXPECT_THAT(only<StartInstance>(c.tick(Seconds(1))), IsEmpty());
}

// The mean is far within the objective: a part of the answers decides.
TEST_F(Smif, AGroupIsLateIfMoreOfItsAnswersAreThanThePercentileAllows) {
  c.view("a").spec.inference().slo.percentile = 90;
  load(20);
  run(12);
  c.view("a").latency = {Millis(20), Millis(150), Millis(150)};
  measure("i000001", 500, 20, 0.1);
  run(1);
  EXPECT_EQ(devices(), "d0d1") << "another of its kind helps against the load's peaks";
  measure("i000001", 500, 20, 0.15);
  measure("i000002", 500, 20, 0.15);
  run(14);
  EXPECT_EQ(devices(), "d0d1d2") << "its kind is late by itself";
}

TEST_F(Smif, AFewLateAnswersMayBeChance) {
  load(5);
  run(12);
  c.view("a").latency = {Millis(20), Millis(150), Millis(150)};
  measure("i000001", 500, 5, 0.02);  // one of 50
  run(1);
  EXPECT_EQ(devices(), "d0d1");
}

// Requests that waited for it to start, or in a burst, are late, whatever its kind.
TEST_F(Smif, AnswersThatWereLateForTheirWaitAreNotTheKinds) {
  load(5);
  run(12);
  c.view("a").latency = {Millis(20), Millis(150), Millis(150)};
  measure("i000001", 500, 15);
  MeasuredInstances waited = *c.now.measured;
  waited.front().late = 1;
  c.now.measured = std::make_shared<MeasuredInstances>(std::move(waited));
  run(1);
  EXPECT_EQ(devices(), "d0d1");
}

TEST_F(Smif, AKindThatWasTooSlowIsRememberedAndLeavesFirst) {
  load(5);
  run(2);
  c.view("a").latency = {Millis(150), Millis(150), Millis(150)};
  measure("i000001", 500, 5, 1);
  run(10);
  ASSERT_EQ(devices(), "d0d2");
  c.view("a").latency = {Millis(20), Millis(20), Millis(20)};
  measure("i000001", 0, 0);
  run(15);
  EXPECT_EQ(devices(), "d2") << "the slow one leaves, though it is cheaper";
  load(100);
  run(2);
  EXPECT_EQ(devices(), "d2d3") << "and its kind is not started again";
}

TEST_F(Smif, InstancesThatAreHardlyUsedGetNoMoreOfTheirKind) {
  for (const char* id : {"d2", "d3"}) c.device(id).drained = true;
  load(20);
  run(2);
  c.view("a").latency = {Millis(50), Millis(120), Millis(200)};
  measure("i000001", 300, 20);
  run(20);
  EXPECT_EQ(devices(), "d0");
  EXPECT_THAT(c.rules("a"), ElementsAre("late-though-idle"));
  c.device("d2").drained = false;
  run(1);
  EXPECT_EQ(devices(), "d0d2") << "a faster kind may help";
}

TEST_F(Smif, AtMaxReplicasAKindThatCarriesTheLoadIsChosenOrTheRestReported) {
  c.view("a").spec.inference().max_replicas = 1;
  load(40);  // more than one weak device carries
  run(1);
  EXPECT_EQ(devices(), "d2");
  load(500);
  run(1);
  EXPECT_EQ(devices(), "d2");
  EXPECT_THAT(c.rules("a"), ElementsAre("max-replicas"));
}

TEST_F(Smif, TheMostExpensiveKindLeavesFirst) {
  load(60);
  run(15);
  EXPECT_EQ(devices(), "d2") << "one strong device costs more than two weak ones";
}

TEST_F(Smif, TheLastInstanceMovesToACheapKindThenToZero) {
  c.view("a").spec.inference().min_replicas = 0;
  c.view("a").spec.inference().slo.latency = Millis(100);
  c.device("d0").drained = c.device("d1").drained = true;
  load(70);
  run(2);
  EXPECT_EQ(devices(), "d2");
  c.device("d0").drained = false;
  load(5);
  run(10);
  EXPECT_EQ(devices(), "d2d0");
  EXPECT_THAT(c.instances("a"), SizeIs(2));
  run(15);
  EXPECT_EQ(devices(), "d0") << "once the other is ready";
  load(0);
  run(59);
  EXPECT_THAT(c.instances("a"), SizeIs(1));
  run(2);
  EXPECT_THAT(c.instances("a"), IsEmpty());
  run(5);
  EXPECT_THAT(c.instances("a"), IsEmpty());
  c.view("a").queued = 1;
  run(1);
  EXPECT_EQ(devices(), "d0");
}

TEST_F(Smif, NoInstanceStopsWithinAWindowOfTheLoadThatItCarried) {
  ArrivalHistory history;
  Nanos at = Seconds(1000);
  const auto pass = [&](int secs, int rate) {
    for (; secs > 0; --secs, at += Seconds(1)) {
      history.add(at, at + Seconds(1), static_cast<uint64_t>(rate));
      c.view("a").arrivals = std::make_shared<ArrivalHistory>(history);
      load(rate);
      run(1);
    }
  };
  pass(20, 40);
  EXPECT_EQ(devices(), "d0d1");
  pass(50, 5);
  EXPECT_EQ(devices(), "d0d1");
  pass(10, 5);
  EXPECT_THAT(c.instances("a"), SizeIs(1));
}

TEST_F(Smif, AnUnmeasuredModelIsScaledByWhatItsInstancesDo) {
  c.predictor.alone.clear();
  load(10);
  run(2);
  EXPECT_EQ(devices(), "d0");
  measure("i000001", 900, 9);
  run(1);
  EXPECT_EQ(devices(), "d0d1");
}

TEST_F(Smif, ACordonedDeviceIsLeftMakeBeforeBreak) {
  load(20);
  run(2);
  c.device("d0").drained = true;
  run(1);
  EXPECT_EQ(devices(), "d0d1");
  run(1);
  EXPECT_EQ(devices(), "d1");
  EXPECT_THAT(c.rules("a"), ElementsAre("replaced"));
}

TEST_F(Smif, ACordonedDeviceIsKeptWhileTheOthersDoNotCarryTheLoad) {
  load(40);
  run(2);
  ASSERT_EQ(devices(), "d0d1");
  for (const char* id : {"d0", "d2", "d3"}) c.device(id).drained = true;
  run(5);
  EXPECT_EQ(devices(), "d0d1");
  c.view("a").spec.inference().max_replicas = 1;
  run(2);
  EXPECT_EQ(devices(), "d1") << "more than one may not be";
}

}  // namespace
}  // namespace sluice::policy
