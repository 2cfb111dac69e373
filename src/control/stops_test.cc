#include "control/stops.h"

#include <gtest/gtest.h>

namespace sluice::control {
namespace {

constexpr Time kStart{std::chrono::hours(1)};
const std::set<InstanceId> kNone;

std::vector<InstanceId> ids(const std::vector<Stops::Order>& orders) {
  std::vector<InstanceId> out;
  for (const Stops::Order& o : orders) out.push_back(o.id);
  return out;
}

TEST(Stops, AnInstanceDrainsWhenTheRoutesLeaveItOutAndItIsIdle) {
  Stops stops(Seconds(10));
  stops.ask("a", kStart + Seconds(30));
  stops.ask("b", kStart + Seconds(30));
  EXPECT_TRUE(stops.due(kStart, &kNone).empty()) << "the gateway may still grant requests";
  stops.left_out();
  const std::set<InstanceId> busy{"a"};
  EXPECT_EQ(ids(stops.due(kStart, &busy)), (std::vector<InstanceId>{"b"}));
  EXPECT_TRUE(stops.waiting());
  EXPECT_EQ(ids(stops.due(kStart + Seconds(1), &kNone)), (std::vector<InstanceId>{"a"}));
  EXPECT_FALSE(stops.waiting());
  EXPECT_TRUE(stops.due(kStart + Seconds(2), &kNone).empty()) << "both were told";
}

TEST(Stops, AGatewayThatCannotBeAskedIsWaitedForUntilTheTimeIsUp) {
  Stops stops(Seconds(10));
  stops.ask("a", kStart + Seconds(30));
  stops.ask("a", kStart + Seconds(99));  // keeps its time
  stops.left_out();
  EXPECT_TRUE(stops.due(kStart + Seconds(29), nullptr).empty());
  const auto orders = stops.due(kStart + Seconds(30), nullptr);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].drain, Nanos(0));
}

TEST(Stops, AnInstanceThatWasToldAndDoesNotDrainIsToldAgain) {
  Stops stops(Seconds(10));
  stops.ask("a", kStart);
  ASSERT_EQ(stops.due(kStart, nullptr).size(), 1u);
  EXPECT_TRUE(stops.due(kStart + Seconds(9), nullptr).empty());
  const auto orders = stops.due(kStart + Seconds(10), nullptr);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_TRUE(orders[0].again);
  stops.drains("a", kStart + Seconds(19));
  EXPECT_TRUE(stops.due(kStart + Seconds(28), nullptr).empty()) << "it drains";
}

TEST(Stops, WhatIsGoneIsForgotten) {
  Stops stops(Seconds(10));
  for (const char* id : {"a", "b", "c"}) stops.ask(id, kStart);
  ObservedInstance a{.instance = {.id = "a"}}, b{.instance = {.id = "b"}};
  b.instance.state = InstanceState::kGone;
  stops.reconcile({a, b});
  EXPECT_TRUE(stops.asked("a"));
  EXPECT_FALSE(stops.asked("b"));
  EXPECT_FALSE(stops.asked("c"));
}

TEST(Overdue, AreReadyInstancesOfOursBeyondTheGrace) {
  Observation seen{.gateways = {{.name = "gateway", .there = true}}};
  std::map<InstanceId, Nanos>& since = seen.gateways[0].overdue;
  for (const char* id : {"foreign", "ready", "recent", "starting"}) {
    seen.instances.push_back({.instance = {.id = id, .state = InstanceState::kReady}});
    since[id] = Seconds(6);
  }
  seen.instances[0].foreign = true;
  seen.instances[3].instance.state = InstanceState::kStarting;
  since["recent"] = Seconds(5);
  since["unknown"] = Seconds(60);
  const auto found = overdue(seen, Seconds(5));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].instance->instance.id, "ready");
}

}  // namespace
}  // namespace sluice::control
