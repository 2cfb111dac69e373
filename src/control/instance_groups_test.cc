#include "control/instance_groups.h"

#include <gtest/gtest.h>

namespace sluice::control {
namespace {

const FunctionName kF{.name = "f"};

// Instances of one function on a device of type "weak" and one of type "strong".
class InstanceGroupsTest : public testing::Test {
 protected:
  InstanceGroupsTest() {
    FunctionState& f = functions[kF];
    f.stored = {.name = kF, .newest = 1};
    f.stored.revisions.push_back({kF, 1, {.name = kF}, 0});
    for (const char* type : {"strong", "weak"})
      seen.devices.push_back({.id = type, .kind = DeviceKind::kCuda, .model = type});
  }
  void start(const InstanceId& id, const std::string& device, Share sm = kWhole, int batch = 1) {
    Instance i{.id = id, .function = kF, .revision = 1, .batch = batch};
    i.parts = {{.device = device, .slice = {.sm = sm, .quota = {kWhole, kWhole}}}};
    i.state = InstanceState::kReady;
    seen.instances.push_back({.instance = std::move(i)});
    std::ranges::sort(seen.instances, {}, [](const auto& o) { return o.instance.id; });
  }
  void end(const InstanceId& id) {
    std::erase_if(seen.instances, [&](const auto& o) { return o.instance.id == id; });
    std::erase_if(functions[kF].answers, [&](const auto& a) { return a.instance == id; });
  }
  // So many answers of two inferences, each after `latency` to a body of so many bytes.
  void answer(const InstanceId& id, int answers, Nanos latency, uint64_t bytes) {
    auto& all = functions[kF].answers;
    const auto at = std::ranges::lower_bound(all, id, {}, &ObservedAnswers::instance);
    ObservedAnswers& a =
        at != all.end() && at->instance == id ? *at : *all.insert(at, {.instance = id});
    auto spread = std::make_shared<AnswerSpread>(a.spread ? *a.spread : AnswerSpread{});
    for (int n = 0; n < answers; ++n) spread->latency.add(latency), spread->body_bytes.add(bytes);
    a.answered += static_cast<uint64_t>(answers);
    a.inferences += 2 * static_cast<uint64_t>(answers);
    a.spread = std::move(spread);
  }
  void step(Nanos later = Seconds(1)) {
    now += later;
    groups.step(seen, functions, measured, now);
  }
  const InstanceGroup& of(const std::string& type, Share sm = kWhole, int batch = 1) {
    return groups.all().at({kF, 1, type, sm, kWhole, batch});
  }

  Functions functions;
  Observation seen;
  MeasuredInstances measured;
  InstanceGroups groups;
  Time now{std::chrono::hours(1)};
};

TEST_F(InstanceGroupsTest, AlikeInstancesAreOneGroup) {
  start("a", "strong");
  start("b", "weak");
  start("c", "weak");
  start("d", "weak", {500});
  start("e", "weak", kWhole, 4);
  step();
  EXPECT_EQ(groups.all().size(), 4u);
  EXPECT_EQ(of("strong").now().instances, 1);
  EXPECT_EQ(of("weak").now().instances, 2);
  EXPECT_EQ(of("weak", {500}).now().instances, 1);
  EXPECT_EQ(of("weak", kWhole, 4).now().instances, 1);
}

TEST_F(InstanceGroupsTest, AGroupsCountersKeepWhatAnEndedInstanceCounted) {
  start("a", "weak");
  start("b", "weak");
  answer("a", 10, Millis(10), 100);
  answer("b", 30, Millis(10), 100);
  step();
  EXPECT_EQ(of("weak").totals().requests, 40u);
  EXPECT_EQ(of("weak").totals().inferences, 80u);
  end("b");
  answer("a", 5, Millis(10), 100);
  step();
  EXPECT_EQ(of("weak").totals().requests, 45u);
  EXPECT_EQ(of("weak").totals().spread.latency.count(), 45u);
  EXPECT_EQ(of("weak").totals().spread.latency.sum(), Millis(450));
  EXPECT_EQ(of("weak").totals().spread.body_bytes.sum(), 4500u);
  EXPECT_EQ(of("weak").now().instances, 1);
}

TEST_F(InstanceGroupsTest, AGatewayThatCountsAnewAddsItsCounts) {
  start("a", "weak");
  answer("a", 10, Millis(10), 100);
  step();
  functions[kF].answers.clear();
  answer("a", 4, Millis(10), 100);
  step();
  EXPECT_EQ(of("weak").totals().requests, 14u);
  EXPECT_EQ(of("weak").totals().spread.latency.sum(), Millis(140));
}

TEST_F(InstanceGroupsTest, WhatAnInstanceCountedBeforeAResizeStaysWithItsGroup) {
  start("a", "weak");
  answer("a", 10, Millis(10), 100);
  step();
  seen.instances[0].instance.parts[0].slice.sm = {500};
  answer("a", 3, Millis(20), 100);
  step();
  EXPECT_EQ(of("weak").totals().requests, 10u);
  EXPECT_EQ(of("weak").now().instances, 0);
  EXPECT_EQ(of("weak", {500}).totals().requests, 3u);
}

TEST_F(InstanceGroupsTest, LatencyAndBodiesAreOfTheLastTenSeconds) {
  start("a", "weak");
  answer("a", 100, Millis(500), 10);
  step();
  EXPECT_GE(of("weak").latency(0.5), Millis(500));
  EXPECT_EQ(of("weak").body_bytes(), 10);
  for (int second = 0; second < 10; ++second) {
    answer("a", 1, Millis(20), 1000);
    step();
  }
  EXPECT_LE(of("weak").latency(0.99), Millis(23));
  EXPECT_EQ(of("weak").body_bytes(), 1000);
}

TEST_F(InstanceGroupsTest, RatesAreTheSumsOfItsInstances) {
  for (const char* id : {"a", "b", "c"}) {
    start(id, "weak");
    answer(id, 1, Millis(10), 1);
    functions[kF].answers.back().in_flight = 2;
    measured.push_back({.instance = id,
                        .busy = {id == std::string("c") ? 10 : 500},
                        .inferences_per_second = 20,
                        .latency = Millis(100),
                        .answers_per_second = 10});
  }
  step();
  EXPECT_EQ(of("weak").now().in_flight, 6);
  EXPECT_EQ(of("weak").now().requests_per_second, 30);
  EXPECT_EQ(of("weak").now().inferences_per_second, 60);
  EXPECT_NEAR(of("weak").now().concurrency, 3, 1e-9);
  EXPECT_NEAR(of("weak").service_rate(), 40, 1e-9) << "by those that are busy";
}

TEST_F(InstanceGroupsTest, TimesOfInferencesAreMeansOverThoseThatProgramsCount) {
  for (const char* id : {"a", "b", "c"}) {
    start(id, "weak");
    measured.push_back({.instance = id, .inferences_per_second = 10});
  }
  measured[0].queue = Millis(1), measured[0].compute = Millis(10);
  measured[1].queue = Millis(5), measured[1].compute = Millis(10);
  measured[1].inferences_per_second = 30;
  step();
  EXPECT_EQ(of("weak").queue(), Millis(4));
  EXPECT_EQ(of("weak").compute(), Millis(10));
}

TEST_F(InstanceGroupsTest, AGroupIsForgottenTenMinutesAfterItsLastInstance) {
  start("a", "weak");
  answer("a", 1, Millis(10), 1);
  step();
  end("a");
  step(Seconds(600));
  EXPECT_EQ(of("weak").totals().requests, 1u);
  step();
  EXPECT_TRUE(groups.all().empty());
  start("b", "weak");
  step();
  EXPECT_EQ(groups.all().size(), 1u);
  functions.clear();
  step();
  EXPECT_TRUE(groups.all().empty()) << "the function was deleted";
}

}  // namespace
}  // namespace sluice::control
