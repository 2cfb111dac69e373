// HAS-GPU's scaling as timelines over a small cluster. Ticks are 2 s apart.
#include "policy/scale/scale_has_gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cluster.h"

namespace sluice::policy {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

Share quota_of(const Instance* i) {
  return i->slice().quota.request;
}

// Its host is the slower one from 40 % on.
TEST(HasGpu, MoreTimeThanHelpsIsNotTaken) {
  ClusterFixture c(2);
  c.function("a", Millis(400), Millis(40));
  c.predictor.helps_up_to = Share{400};
  c.config.borrow = true;
  c.rate("a", 1000);
  for (int i = 0; i < 3; ++i) c.tick();
  ASSERT_FALSE(c.instances("a").empty());
  for (const Instance* i : c.instances("a")) EXPECT_LE(i->slice().quota.request, Share{400});
}

TEST(HasGpu, StartsOneInstanceWithoutLoad) {
  ClusterFixture c(2);
  c.function("a", Millis(100), Millis(10));
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("keep-alive"));
  c.tick();
  EXPECT_THAT(c.rules("a"), IsEmpty());
}

TEST(HasGpu, TheIdleQuotaStillAnswersOneRequestInTime) {
  ClusterFixture c(1);
  c.function("a", Millis(100), Millis(10));
  c.tick();
  const Instance* i = c.instances("a").at(0);
  const Configuration at{1, i->slice().sm, quota_of(i)};
  EXPECT_LE(c.predictor.predict(model_on(fn("a"), 1, c.device("d0")), at)->median, Millis(100));
}

TEST(HasGpu, OrIsMinimalIfSoAsked) {
  ClusterFixture c(1);
  c.config.idle_meets_slo = false;
  c.function("a", Millis(100), Millis(10));
  for (int i = 0; i < 3; ++i) c.tick();
  EXPECT_EQ(quota_of(c.instances("a").at(0)), c.config.min_quota);
}

TEST(HasGpu, BurstRaisesQuotaBeforeAnyStart) {
  ClusterFixture c(4);
  c.function("a", Millis(100), Millis(10));
  c.instance("a1", "a", "d0", slice(1000, 200));
  c.rate("a", 70);  // whole device: 100/s
  const auto& actions = c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("vertical-up"));
  EXPECT_EQ(only<ResizeInstance>(actions).at(0).first().slice, slice(1000, 800));
  EXPECT_EQ(actions[0].reason.text,
            "20.0/s at 90 % carries 18.0/s; 70.0/s expected. Quota 20 % → 80 % on d0 makes it "
            "80.0/s.");
}

TEST(HasGpu, RampEndsOnNewDevices) {
  ClusterFixture c(4);
  c.function("a", Millis(100), Millis(10));
  std::vector<std::string> seen;
  for (double rate = 5; rate <= 250; rate *= 1.3) {
    c.rate("a", rate);
    c.tick();
    for (const std::string& rule : c.rules("a")) seen.push_back(rule);
    EXPECT_GE(c.config.alpha * c.capacity("a") + 1e-9, rate);
  }
  EXPECT_THAT(seen, Contains("vertical-up"));
  EXPECT_THAT(seen, Contains("new-device"));
  EXPECT_THAT(seen, Not(Contains("cluster-full")));
}

TEST(HasGpu, AUsedDeviceComesBeforeANewOneLeastOccupiedFirst) {
  ClusterFixture c(4);
  c.function("a", Millis(200), Millis(10));
  c.function("b", Millis(200), Millis(10));
  c.instance("b1", "b", "d1", slice(500, 900));
  c.instance("b2", "b", "d2", slice(500, 300));
  c.rate("b", 60);
  c.rate("a", 20);
  const auto& actions = c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("used-device"));
  EXPECT_EQ(only<StartInstance>(actions).at(0).first().device, "d2");
}

TEST(HasGpu, DecayFallsBackToTheIdleFloorAfterTheCooldown) {
  ClusterFixture c(4);
  c.function("a", Millis(100), Millis(10));
  c.rate("a", 250);
  c.tick();
  ASSERT_GT(c.instances("a").size(), 1u);
  c.rate("a", 0);
  c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(1));
  const Share quota = quota_of(c.instances("a").at(0));
  EXPECT_EQ(quota, Share{100});  // 10 ms ÷ 10 % is just the SLO
  for (int i = 0; i < 100; ++i) EXPECT_THAT(c.tick(), IsEmpty());
}

TEST(HasGpu, NothingIsGivenBackWithinTheCooldown) {
  ClusterFixture c(1);
  c.function("a", Millis(100), Millis(10));
  c.instance("a1", "a", "d0", slice(1000, 1000));
  c.rate("a", 20);
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("vertical-down"));
  EXPECT_EQ(quota_of(c.instances("a").at(0)), Share{300});  // 20 ≤ 0.9 × 30
  c.rate("a", 1);
  for (int s = 2; s < 10; s += 2) EXPECT_THAT(c.tick(), IsEmpty()) << s;
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("vertical-down"));
}

// A forecast that dips is not less load for instances; quotas come back at once.
TEST(HasGpu, QuotasFollowTheLoadAndInstancesTheLastMinute) {
  ClusterFixture c(2);
  c.config.keep_peak = true;
  c.function("a", Millis(100), Millis(10));
  c.instance("a1", "a", "d0", slice(1000, 500));
  c.instance("a2", "a", "d1", slice(1000, 500));
  c.rate("a", 5);
  c.view("a").forecast_peak = 40;
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("vertical-down", "vertical-down"));
  ASSERT_THAT(c.instances("a"), SizeIs(2)) << "50 < 40 ÷ ((0.9 + 0.3) ÷ 2)";
  EXPECT_EQ(quota_of(c.instances("a")[0]), c.config.min_quota) << "it rests";
  EXPECT_EQ(quota_of(c.instances("a")[1]), Share{100}) << "5 ≤ 10 × (0.9 + 0.3) ÷ 2";
  for (int tick = 0; tick < 6; ++tick) EXPECT_THAT(c.tick(), IsEmpty()) << tick;
  c.rate("a", 60);
  c.tick();
  EXPECT_GE(0.9 * c.capacity("a"), 60) << "without a start";
  EXPECT_THAT(c.instances("a"), SizeIs(2));
}

TEST(HasGpu, AnInstanceThatRestsStopsOnceTheLastMinuteIsQuieter) {
  ClusterFixture c(2);
  c.config.keep_peak = true;
  c.function("a", Millis(100), Millis(10));
  c.instance("a1", "a", "d0", slice(1000, 50));
  c.instance("a2", "a", "d1", slice(1000, 100));
  c.rate("a", 5);
  c.view("a").forecast_peak = 40;
  EXPECT_THAT(c.tick(), IsEmpty());
  c.view("a").forecast_peak = 5.5;
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("scale-in")) << "10 > 5.5 ÷ 0.6";
  EXPECT_EQ(c.instances("a").at(0)->id, "a2");
}

// What one function keeps spare is not what another lacks.
TEST(HasGpu, OnAFullDeviceEveryLoadComesBeforeWhatIsSpare) {
  for (const bool load_first : {false, true}) {
    ClusterFixture c(1);
    c.config.alpha = 0.5;
    c.config.load_first = load_first;
    for (const char* name : {"a", "b"}) {
      c.function(name, Millis(100), Millis(10));
      c.instance(std::string(name) + "1", name, "d0", slice(1000, 100));
      c.rate(name, 40);  // 80 with what is spare; whole device: 100
    }
    const auto& actions = c.tick();
    EXPECT_EQ(quota_of(c.instances("a").at(0)), Share{load_first ? 600 : 800});
    EXPECT_EQ(quota_of(c.instances("b").at(0)), Share{load_first ? 400 : 200});
    EXPECT_THAT(actions[0].reason.text + actions[1].reason.text, HasSubstr("Quota 10 % → "));
  }
}

// 182 ms of 300: of one request a second 6 % would come while one instance is busy for 118 ms more.
TEST(HasGpu, ALoneInstanceGetsASecondWhereItWouldBeBusyTooOften) {
  ClusterFixture c(4, kWhole);
  c.config.lone_in_time = true;
  c.config.keep_peak = true;
  c.function("a", Millis(300), Millis(182));
  const double allowed = 1 - c.view("a").spec.inference().slo.percentile / 100;
  ASSERT_NEAR(allowed, 0.05, 1e-9);
  const auto last_minute = [&](uint64_t requests) {
    const auto history = std::make_shared<ArrivalHistory>();
    history->add(Seconds(0), Seconds(60), requests);
    history->add(Seconds(60), Seconds(61), 0);
    c.view("a").arrivals = history;
  };
  last_minute(24);
  c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(1)) << "2.2 %";
  last_minute(30);
  EXPECT_THAT(c.tick().at(0).reason.text, HasSubstr("one instance would be busy"));
  ASSERT_THAT(c.instances("a"), SizeIs(2)) << "2.8 %, more than half of 5";
  EXPECT_NE(c.instances("a")[0]->device(), c.instances("a")[1]->device()) << "182 ms ÷ 70 %";
  last_minute(18);
  for (int s = 0; s < 100; s += 2) c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(2)) << "1.6 %: it would come again";
  last_minute(12);
  for (int s = 0; s < 100; s += 2) c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(1)) << "1.0 %";
}

TEST(HasGpu, ALoneInstanceStaysAloneWhereNoMoreAreAllowed) {
  ClusterFixture c(4, kWhole);
  c.config.lone_in_time = true;
  c.function("a", Millis(300), Millis(182));
  const auto history = std::make_shared<ArrivalHistory>();
  history->add(Seconds(0), Seconds(60), 60);
  history->add(Seconds(60), Seconds(61), 0);
  c.view("a").arrivals = history;
  c.tick();
  ASSERT_THAT(c.instances("a"), SizeIs(2));
  c.view("a").spec.inference().max_replicas = 1;
  for (int s = 0; s < 100; s += 2) c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(1));
}

TEST(HasGpu, ALoneInstanceStaysAloneWhereRequestsCanWait) {
  ClusterFixture c(4);
  c.config.lone_in_time = true;
  c.function("a", Millis(2000), Millis(182));
  const auto history = std::make_shared<ArrivalHistory>();
  history->add(Seconds(0), Seconds(60), 120);
  history->add(Seconds(60), Seconds(61), 0);
  c.view("a").arrivals = history;
  c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(1));
}

TEST(HasGpu, TwoFunctionsOfOneDeviceGrowIntoTheRest) {
  ClusterFixture c(1, kWhole);
  c.function("a", Millis(100), Millis(10));
  c.function("b", Millis(100), Millis(10));
  c.rate("a", 30), c.rate("b", 30);
  c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(1));
  EXPECT_THAT(c.instances("b"), SizeIs(1));
  c.rate("a", 50);
  c.tick();
  EXPECT_EQ(quota_of(c.instances("a").at(0)), Share{600});
  EXPECT_EQ(quota_of(c.instances("b").at(0)), Share{400});
}

TEST(HasGpu, AThirdInTheLaneIsShiftedWithoutLosingItsShare) {
  ClusterFixture c(1, kWhole);
  for (const char* name : {"a", "b", "c"}) {
    c.function(name, Millis(100), Millis(10));
    c.rate(name, 10);
  }
  c.tick();
  for (const char* name : {"a", "b", "c"}) {  // each in turn takes nearly all that is left
    c.rate(name, 50);
    c.tick();
    EXPECT_EQ(quota_of(c.instances(name).at(0)), Share{600}) << name;
    c.rate(name, 10);
    c.tick(Seconds(20));
    EXPECT_EQ(quota_of(c.instances(name).at(0)), Share{200}) << name;
  }
}

TEST(HasGpu, AFullDeviceGoesToViolatedThenPriorityThenName) {
  for (const auto& [favour, winner] :
       {std::pair("violating", "c"), {"priority", "b"}, {"name", "a"}}) {
    ClusterFixture c(1, kWhole);
    for (const char* name : {"a", "b", "c"}) {
      c.function(name, Millis(50), Millis(10));
      c.instance(std::string(name) + "1", name, "d0", slice(1000, 200),
                 {{0}, {200 * (name[0] - 'a')}});
      c.rate(name, 50);
    }
    if (favour != std::string("name")) c.view("b").spec.priority = 1;
    if (favour == std::string("violating")) c.view("c").violating = true;
    c.tick();
    for (const char* name : {"a", "b", "c"}) {
      EXPECT_EQ(quota_of(c.instances(name).at(0)), Share{name == std::string(winner) ? 600 : 200})
          << favour << " " << name;
    }
  }
}

TEST(HasGpu, ADrainedDeviceIsLeftMakeBeforeBreak) {
  ClusterFixture c(2);
  c.function("a", Millis(100), Millis(10));
  c.instance("a1", "a", "d0", slice(1000, 500));
  c.rate("a", 40);
  c.device("d0").drained = true;
  const auto& actions = c.tick();
  ASSERT_THAT(only<StartInstance>(actions), SizeIs(1));
  EXPECT_EQ(only<StartInstance>(actions)[0].first().device, "d1");
  EXPECT_THAT(only<StopInstance>(actions), IsEmpty());  // its successor is not ready yet
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("drained-device"));
  EXPECT_THAT(c.tick(), IsEmpty());
}

TEST(HasGpu, NothingIsChangedOnANodeThatDoesNotAnswer) {
  ClusterFixture c(2);
  c.function("a", Millis(100), Millis(10));
  c.instance("a1", "a", "d0", slice(1000, 500));
  c.device("d0").reachable = false;
  c.rate("a", 60);  // more than its quota can do, less than its device
  const auto& up = c.tick();
  ASSERT_THAT(up, SizeIs(1));
  ASSERT_THAT(only<StartInstance>(up), SizeIs(1));
  EXPECT_EQ(only<StartInstance>(up)[0].first().device, "d1");
  c.become_ready(Seconds(10));
  c.rate("a", 0);
  for (int n = 0; n < 5; ++n)
    for (const Action& action : c.tick(Seconds(60))) {
      const auto* stop = std::get_if<StopInstance>(&action.what);
      const auto* resize = std::get_if<ResizeInstance>(&action.what);
      EXPECT_FALSE(stop != nullptr && stop->instance == "a1");
      EXPECT_FALSE(resize != nullptr && resize->instance == "a1");
    }
  c.device("d0").reachable = true;
  EXPECT_THAT(c.tick(Seconds(60)), Not(IsEmpty())) << "it is too large";
}

TEST(HasGpu, SaysWhyNothingFits) {
  ClusterFixture c(2);
  c.function("a", Millis(100), Millis(10));
  c.rate("a", 500);
  c.device("d1").drained = true;
  c.tick();
  const auto& actions = c.tick();
  ASSERT_THAT(c.rules("a"), ElementsAre("cluster-full"));
  EXPECT_NEAR(only<Unmet>(actions)[0].gap, 500 / 0.9 - c.capacity("a"), 1e-6);
  EXPECT_EQ(actions[0].reason.text,
            "100.0/s at 90 % carries 90.0/s; 500.0/s expected, 455.6/s stay uncovered: of 2 "
            "devices none has room for a slice that answers within 100.0 ms: 1 is too full "
            "(nothing is free), 1 is cordoned. a holds 100 % of a device.");
}

TEST(HasGpu, SaysThatTheSloIsImpossible) {
  ClusterFixture c(2);
  c.function("a", Millis(5), Millis(10));
  const auto& actions = c.tick();
  ASSERT_THAT(c.rules("a"), ElementsAre("slo-impossible"));
  EXPECT_EQ(
      actions[0].reason.text,
      "No slice meets the objective of 5.0 ms: a whole device answers one request in 10.0 ms.");
}

TEST(HasGpu, SaysThatMaxReplicasHoldsItBack) {
  ClusterFixture c(4);
  c.function("a", Millis(100), Millis(10)).inference().max_replicas = 1;
  c.rate("a", 500);
  c.tick();
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("max-replicas"));
  EXPECT_THAT(c.instances("a"), SizeIs(1));
}

TEST(HasGpu, SaysThatMemoryIsMissing) {
  ClusterFixture c(2);
  c.function("a", Millis(100), Millis(10)).memory = Bytes{2} << 30;
  const auto& actions = c.tick();
  ASSERT_THAT(c.rules("a"), ElementsAre("cluster-full"));
  EXPECT_THAT(actions[0].reason.text, HasSubstr("2 lack 2048 MiB"));
}

TEST(HasGpu, AFunctionNeverMeasuredIsKeptAliveAsItsFileSays) {
  ClusterFixture c(2);
  c.function("a", Millis(100), Nanos(0)).slice = slice(500, 400);
  c.rate("a", 1000);
  const auto& actions = c.tick();
  EXPECT_EQ(only<StartInstance>(actions).at(0).first().slice, slice(500, 400));
  EXPECT_THAT(c.tick(), IsEmpty());
}

TEST(HasGpu, EveryInstanceOfAFunctionNeverMeasuredHasTheStatedSlice) {
  ClusterFixture c(3);
  c.function("a", Millis(100), Nanos(0)).slice = slice(1000, 600);
  c.view("a").spec.inference().min_replicas = 2;
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("keep-alive", "keep-alive"));
  ASSERT_THAT(c.instances("a"), SizeIs(2));
  EXPECT_EQ(c.instances("a")[0]->slice().sm, kWhole);
  EXPECT_EQ(quota_of(c.instances("a")[1]), Share{600});
  EXPECT_NE(c.instances("a")[0]->device(), c.instances("a")[1]->device());
  EXPECT_THAT(c.tick(), IsEmpty());
  c.view("a").spec.inference().min_replicas = 4;
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("keep-alive", "cluster-full"));
}

TEST(HasGpu, ModelsNeverMeasuredShareTheDevicesEvenly) {
  for (const int quantum : {100, 300, 1000}) {
    ClusterFixture c(3, {quantum});
    for (int n = 0; n < 12; ++n)  // four to a device
      c.function(std::string(1, static_cast<char>('a' + n)), Millis(100), Nanos(0));
    c.tick();
    std::map<DeviceId, int> on;
    for (const Instance& i : c.now.instances) {
      EXPECT_EQ(i.slice(), (Slice{kWhole, {{250}, kWhole}, 0})) << "it may borrow the rest";
      ++on[i.device()];
    }
    EXPECT_EQ(on, (std::map<DeviceId, int>{{"d0", 4}, {"d1", 4}, {"d2", 4}}));
    EXPECT_THAT(c.tick(), IsEmpty());
  }
}

TEST(HasGpu, AModelNeverMeasuredTakesTheEmptiestDevice) {
  ClusterFixture c(2);
  c.function("a", Millis(100), Nanos(0));
  c.function("b", Millis(100), Millis(10));
  c.instance("b1", "b", "d0", slice(1000, 300));
  c.tick();
  EXPECT_EQ(c.instances("a").at(0)->device(), "d1");
}

TEST(HasGpu, SaysWhichFunctionsHoldTheDevices) {
  ClusterFixture c(2);
  c.function("a", Millis(100), Nanos(0));
  c.function("b", Millis(100), Millis(10));
  c.rate("b", 80);
  c.instance("b1", "b", "d0", slice(1000, 900));
  c.instance("x1", "x", "d1", slice(1000, 500));
  c.instance("y1", "y", "d1", slice(1000, 400), {{0}, {500}}).state = InstanceState::kDraining;
  const std::vector<Action> actions = c.decide();
  ASSERT_THAT(only<Unmet>(actions), SizeIs(1));
  EXPECT_EQ(actions.back().reason.text,
            "One instance always stays and none runs: of 2 devices none has room for sm 100 % × "
            "quota 25 %: 2 are too full (at most sm 100 % × quota 10 % is free, on d0). b holds "
            "90 % of a device, x (never measured) 50 %, y (draining) 40 %.");
}

// Each step is a quarter of a second; a start takes two seconds.
TEST(HasGpu, AnInstanceStaysForAsLongAsItsStartTook) {
  ClusterFixture c(2);
  c.function("a", Millis(100), Millis(10));
  c.view("a").start_cost = Seconds(2);
  c.config.outlast_starts = true;
  c.instance("a1", "a", "d0", slice(1000, 1000)).started = Time{};  // adopted
  c.rate("a", 120);
  const auto time_passes = [&](Nanos step) {
    const std::vector<Instance> before = c.now.instances;
    c.now.now += step;
    int started = 0;
    const std::vector<Action> actions = c.decide();
    carry_out(c.now, actions, "i", started);
    return actions;
  };
  ASSERT_THAT(only<StartInstance>(time_passes(Millis(250))), SizeIs(1));
  c.rate("a", 1);  // from the next moment it is not needed
  for (int ms = 250; ms < 4000; ms += 250) {
    EXPECT_THAT(only<StopInstance>(time_passes(Millis(250))), IsEmpty()) << ms;
    if (ms == 2000)
      for (Instance& i : c.now.instances) i.state = InstanceState::kReady;
  }
  c.now.now += Seconds(10);  // the cooldown of the resizes meanwhile
  EXPECT_THAT(only<StopInstance>(time_passes(Millis(250))), SizeIs(1));
}

TEST(HasGpu, AGapThatIsNextToNothingTakesNoDevice) {
  ClusterFixture c(2);
  c.config.slack = 0.02;
  c.function("a", Millis(100), Millis(10));
  c.instance("a1", "a", "d0", slice(1000, 1000));
  c.rate("a", 91);  // of 90
  EXPECT_THAT(c.tick(), IsEmpty());
  c.rate("a", 93);
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("new-device"));
}

TEST(HasGpu, WhatWaitsForTheFirstInstanceTakesNoOthers) {
  ClusterFixture c(2);
  c.config.work_off = true;
  c.function("a", Millis(100), Millis(10));
  c.rate("a", 9);
  c.view("a").queued = 100;
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("new-device"));  // and nothing is unmet
}

TEST(HasGpu, ABatchIsChosenAtStartAndKept) {
  ClusterFixture c(1);
  c.function("a", Millis(100), Millis(10), 8);
  c.tick();
  const int batch = c.instances("a").at(0)->batch;
  EXPECT_EQ(batch, 8);  // 45 ms on a whole device
  c.rate("a", 100);     // a single request at a time could do 100/s, batches of 8 178/s
  c.tick();
  EXPECT_THAT(c.rules("a"), Each("vertical-up"));
  EXPECT_EQ(c.instances("a").at(0)->batch, batch);
}

TEST(HasGpu, AnOlderRevisionKeepsItsTrafficUntilItIsNotListed) {
  ClusterFixture c(4);
  c.function("a", Millis(100), Millis(10));
  c.instance("a1", "a", "d0", slice(1000, 500));
  c.rate("a", 40);
  OlderRevision older{1, c.view("a").spec, 100};
  c.view("a").revision = 2;
  c.view("a").older = {older};
  auto actions = c.tick();
  ASSERT_THAT(only<StartInstance>(actions), Not(IsEmpty()));
  EXPECT_EQ(only<StartInstance>(actions)[0].revision, 2);
  EXPECT_THAT(only<StopInstance>(actions), IsEmpty());
  c.view("a").older.clear();
  actions = c.tick();
  EXPECT_EQ(only<StopInstance>(actions).at(0).instance, "a1");
  EXPECT_THAT(c.rules("a"), ElementsAre("retired"));
}

TEST(HasGpu, ACanaryIsSizedForItsPartOfTheTraffic) {
  ClusterFixture c(4);
  c.function("a", Millis(100), Millis(10)).inference().canary_traffic_percent = 25;
  c.view("a").older = {{1, c.view("a").spec, 75}};
  c.view("a").revision = 2;
  c.rate("a", 90);
  c.tick();
  double newest = 0, older = 0;
  for (const Instance* i : c.instances("a")) {
    const Configuration at{i->batch, i->slice().sm, quota_of(i)};
    (i->revision == 2 ? newest : older) +=
        c.predictor.throughput(model_on(i->function, i->revision, c.device(i->device())), at);
  }
  EXPECT_GE(newest, 25);
  EXPECT_LT(newest, 50);
  EXPECT_GE(older, 75);
}

TEST(HasGpu, TheFirstInstanceHasTheStatedSliceAndGrowsFromThere) {
  ClusterFixture c(2);
  c.function("a", Millis(100), Millis(10)).slice = slice(500, 200);
  c.tick();
  EXPECT_EQ(c.instances("a").at(0)->slice(), slice(500, 200));
  c.rate("a", 40);
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("vertical-up"));
  EXPECT_EQ(c.instances("a").at(0)->slice(), slice(500, 600));
}

TEST(HasGpu, AGapNoSingleSliceCoversIsFilledWithSeveral) {
  ClusterFixture c(4);
  c.function("a", Millis(100), Millis(10));
  c.rate("a", 225);
  c.tick();
  EXPECT_EQ(c.rules("a"), std::vector<std::string>(c.instances("a").size(), "new-device"));
  EXPECT_GE(c.capacity("a"), 250);
}

TEST(HasGpu, ABorrowersLimitIsTheWholeWindow) {
  ClusterFixture c(2, kWhole);
  c.config.borrow = true;
  c.config.slo_fraction = 0.5;
  c.function("a", Millis(100), Millis(10));
  c.tick();
  // Without borrowing 10 ms ÷ 20 % would be the first within half of the SLO.
  EXPECT_EQ(c.instances("a").at(0)->slice().quota, (Quota{{100}, kWhole}));
  c.rate("a", 45);
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("vertical-up"));
  EXPECT_EQ(c.instances("a").at(0)->slice().quota, (Quota{{500}, kWhole}));
  c.rate("a", 0);
  c.tick(Seconds(20));
  EXPECT_EQ(c.instances("a").at(0)->slice().quota, (Quota{{100}, kWhole}));
}

TEST(HasGpu, WhatWaitsIsWorkedOffWithinTheSlo) {
  for (const bool work_off : {false, true}) {
    ClusterFixture c(2);
    c.config.work_off = work_off;
    c.function("a", Millis(100), Millis(10));
    c.instance("a1", "a", "d0", slice(1000, 200));
    c.rate("a", 9);
    c.view("a").queued = 6;  // one is about to be taken; five in 100 ms are 50/s
    const auto& actions = c.tick();
    if (!work_off) {
      EXPECT_THAT(actions, IsEmpty());
      continue;
    }
    EXPECT_EQ(quota_of(c.instances("a").at(0)), Share{600});  // 9 ÷ 0.9 + 50
    EXPECT_THAT(actions.at(0).reason.text,
                HasSubstr("9.0/s expected and 6 waiting, which need another 50.0/s to be in time"));
    c.view("a").queued = 1;
    c.tick();
    EXPECT_THAT(c.rules("a"), ElementsAre("vertical-down"));
  }
}

TEST(HasGpu, WhatOneGivesBackAnotherTakesInTheSameTick) {
  ClusterFixture c(1, kWhole);
  c.function("a", Millis(100), Millis(10));
  c.function("b", Millis(100), Millis(10));
  c.instance("a1", "a", "d0", slice(1000, 800));
  c.instance("b1", "b", "d0", slice(1000, 200), {{0}, {800}});
  c.rate("b", 70);
  c.tick();
  EXPECT_EQ(quota_of(c.instances("a").at(0)), Share{100});
  EXPECT_EQ(quota_of(c.instances("b").at(0)), Share{800});
}

// --- devices of two types ---

const DeviceType kSlow{"cpu/500m"};

// d0 is of a fast type, d1 takes twice as long.
class TwoTypes : public ClusterFixture {
 public:
  TwoTypes() : ClusterFixture(2, kWhole) {
    device("d0").millicores = 1000;
    device("d1").millicores = 500;
    predictor.slowness[kSlow] = 2;
    function("a", Millis(200), Millis(10));
  }
};

TEST(HasGpu, ASlowerTypeOfDeviceNeedsMoreQuotaForTheSameLoad) {
  std::map<std::string, Share> quotas;
  for (const char* only : {"d0", "d1"}) {
    TwoTypes c;
    c.device(only == std::string("d0") ? "d1" : "d0").drained = true;
    c.rate("a", 27);
    c.tick();
    ASSERT_EQ(c.instances("a").size(), 1u);
    ASSERT_EQ(c.instances("a")[0]->device(), only);
    quotas[only] = quota_of(c.instances("a")[0]);
    EXPECT_NEAR(c.capacity("a"), 30, 1e-3);
  }
  EXPECT_EQ(quotas["d0"], Share{300});
  EXPECT_EQ(quotas["d1"], Share{600});
}

TEST(HasGpu, AnInstanceCountsForWhatItDoesOnItsOwnDevice) {
  TwoTypes c;
  c.instance("a1", "a", "d0", slice(1000, 300));
  c.instance("a2", "a", "d1", slice(1000, 300));
  c.rate("a", 44);  // 30/s and 15/s at 90 % carry 40.5/s
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("vertical-up"));
  EXPECT_NEAR(c.capacity("a"), 55, 1e-3);
  // The quota that answers one request in time is twice as large there.
  c.rate("a", 0);
  for (int i = 0; i < 3; ++i) c.tick(Seconds(11));
  ASSERT_EQ(c.instances("a").size(), 1u);
  const Configuration at{1, kWhole, quota_of(c.instances("a")[0])};
  const Device& on = c.device(c.instances("a")[0]->device());
  EXPECT_LE(c.predictor.predict(model_on(fn("a"), 1, on), at)->median, Millis(200));
}

TEST(HasGpu, ATypeWhereItWasNeverMeasuredOrLacksTheMemoryIsPassedOver) {
  for (const bool lacks_memory : {false, true}) {
    TwoTypes c;
    c.function("b", Millis(100), Millis(1));
    c.instance("b1", "b", "d1", slice(1000, 200));  // used devices come first
    if (lacks_memory)
      c.predictor.needs[kSlow] = Bytes{2} << 30;
    else
      c.predictor.slowness[kSlow] = 0;
    c.rate("a", 27);
    c.rate("b", 1);
    c.tick();
    ASSERT_EQ(c.instances("a").size(), 1u);
    EXPECT_EQ(c.instances("a")[0]->device(), "d0");
  }
}

}  // namespace
}  // namespace sluice::policy
