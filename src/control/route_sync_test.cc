#include "control/route_sync.h"

#include <gtest/gtest.h>

#include "predict/profile_table.h"
#include "tests/support/fake_cluster.h"

namespace sluice::control {
namespace {

class RouteSyncTest : public testing::Test {
 protected:
  RouteSyncTest() {
    function.name.name = "f";
    function.newest = function.serving = 1;
    function.revisions.push_back({function.name, 1, {}, 0});
    cluster.adopt({.id = "f-1",
                   .function = function.name,
                   .revision = 1,
                   .state = InstanceState::kReady,
                   .parts = {{"cpu0", {}, {}}}});
    seen = cluster.observe();
  }
  bool push() { return sync.push(cluster, seen, {{&function, "weighted", ""}}, stops, predictor); }
  std::string state() { return cluster.routes["functions"][0]["instances"][0]["state"]; }

  ManualClock clock;
  FakeCluster cluster{clock};
  StoredFunction function;
  Observation seen;
  RouteSync sync;
  Stops stops{Seconds(10)};
  predict::ProfileTable predictor;
};

TEST_F(RouteSyncTest, GivesTheGatewayWhatChangedAndNothingElse) {
  EXPECT_TRUE(push());
  EXPECT_TRUE(push());
  sync.mark_stale();
  EXPECT_TRUE(push());
  EXPECT_EQ(cluster.tables, 1);
  seen.instances[0].instance.batch = 4;
  EXPECT_TRUE(push());
  EXPECT_EQ(cluster.tables, 2);
}

TEST_F(RouteSyncTest, AnInstanceThatWasAskedToStopIsRoutedAsDraining) {
  push();
  EXPECT_EQ(state(), "ready");
  stops.ask("f-1", Time::max());
  EXPECT_TRUE(push());
  EXPECT_EQ(state(), "draining");
  EXPECT_TRUE(push());
  EXPECT_EQ(cluster.tables, 2);
}

// What it answers is worthless, and may come fast.
TEST_F(RouteSyncTest, AnInstanceOnAFailingDeviceHasRequestsOnlyWhereNoOtherIsReady) {
  const auto states = [&] {
    sync.mark_stale();
    EXPECT_TRUE(push());
    std::vector<std::string> all;
    for (const auto& i : cluster.routes["functions"][0]["instances"]) all.push_back(i["state"]);
    return all;
  };
  seen.devices = {{.id = "cpu0"}, {.id = "cuda0", .kind = DeviceKind::kCuda, .fault = "Xid 79"}};
  seen.instances[0].instance.parts[0].device = "cuda0";
  EXPECT_EQ(states(), std::vector<std::string>{"ready"});
  seen.instances.push_back(seen.instances[0]);
  seen.instances[1].instance.id = "f-2";
  seen.instances[1].instance.parts[0].device = "cpu0";
  EXPECT_EQ(states(), (std::vector<std::string>{"draining", "ready"}));
  seen.devices[1].fault.clear();
  EXPECT_EQ(states(), (std::vector<std::string>{"ready", "ready"}));
}

TEST_F(RouteSyncTest, AGatewayWithOtherRoutesIsGivenThemAgainUnderALargerVersion) {
  push();
  cluster.seen.gateways[0].routes_version = 70;  // of a dead loop
  seen = cluster.observe();
  EXPECT_FALSE(sync.have_them(seen));
  EXPECT_TRUE(push());
  EXPECT_EQ(seen.gateways[0].routes_version, 71);
  EXPECT_TRUE(sync.have_them(seen));
}

TEST_F(RouteSyncTest, WhatAGatewayDidNotTakeIsGivenAgain) {
  cluster.gateway_there = false;
  EXPECT_FALSE(push()) << "it refused";
  seen.gateways[0].there = false;
  EXPECT_FALSE(push()) << "it is not there";
  cluster.gateway_there = true;
  seen = cluster.observe();
  EXPECT_TRUE(push());
  EXPECT_EQ(state(), "ready");
}

}  // namespace
}  // namespace sluice::control
