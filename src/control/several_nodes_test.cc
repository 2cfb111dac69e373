// The loop over several nodes and gateways, some of which do not answer.
#include <gtest/gtest.h>

#include <algorithm>

#include "control/desired_memory.h"
#include "control/journal_memory.h"
#include "control/requests.h"
#include "predict/profile_table.h"
#include "tests/support/fake_cluster.h"

namespace sluice::control {
namespace {

const FunctionName kF{.name = "f"}, kG{.name = "g"};

// Three nodes of a device each, and two gateways.
class SeveralNodes : public testing::Test {
 protected:
  SeveralNodes() {
    cluster.devices.clear();
    for (const char* node : {"a", "b", "c"})
      cluster.devices.push_back(
          {.id = std::string(node) + "/cpu0", .node = node, .millicores = 1000, .memory = 1 << 30});
    cluster.add_gateway("other gateway");
    cluster.start_takes = cluster.drain_takes = Seconds(1);
    open();
  }
  void open() {
    control = std::move(
        *Control::open({desired, journal, cluster, predictor, clock}, {.bundle = "fixed"}));
  }
  void apply(const FunctionName& name, int replicas, int permille) {
    FunctionSpec s{.name = name};
    s.inference().model.path = "/m.pt";
    s.inference().min_replicas = replicas;
    s.slice = Slice{.sm = kWhole, .quota = {{permille}, {permille}}};
    ASSERT_TRUE(Requests(*control).apply({std::move(s)}, false, wall).ok());
  }
  void step(int times = 1) {
    for (int i = 0; i < times; ++i) {
      clock.advance(Seconds(1));
      wall += 1000;
      control->step(wall);
    }
  }
  // Returns the nodes of the function's ready instances, in order.
  std::string nodes_of(const FunctionName& f) {
    std::vector<std::string> nodes;
    for (const ObservedInstance& o : cluster.seen.instances)
      if (o.instance.function == f && o.instance.state == InstanceState::kReady)
        nodes.push_back(o.node);
    std::ranges::sort(nodes);
    std::string text;
    for (const std::string& node : nodes) text += node;
    return text;
  }
  std::vector<std::string> rules() {
    std::vector<std::string> rules;
    const auto decisions = *journal.decisions({}, 100);
    for (const Decision& d : decisions) rules.push_back(d.reason.rule);
    return rules;
  }
  bool said(const std::string& rule) { return std::ranges::count(rules(), rule) > 0; }
  uint64_t requests() { return control->functions().at(kF).traffic.totals().requests; }
  double rate() { return control->functions().at(kF).traffic.request_rate(Seconds(5)); }

  ManualClock clock;
  UnixMillis wall = 1'000'000'000'000;
  FakeCluster cluster{clock};
  MemoryDesiredState desired;
  MemoryJournal journal;
  predict::ProfileTable predictor;
  std::unique_ptr<Control> control;
};

TEST_F(SeveralNodes, ANodeThatIsAwayKeepsItsInstancesAndGetsNone) {
  apply(kF, 3, 600);
  step(5);
  ASSERT_EQ(nodes_of(kF), "abc");
  cluster.away = {"b"};
  apply(kG, 3, 300);
  step(30);
  EXPECT_EQ(nodes_of(kF), "abc");
  EXPECT_EQ(nodes_of(kG), "ac");
  EXPECT_EQ(cluster.stops, 0);
  EXPECT_EQ(cluster.starts, 5);
  EXPECT_EQ(cluster.routes["functions"][0]["instances"].size(), 3u) << "its routes stay";
  cluster.away.clear();
  step(5);
  EXPECT_EQ(nodes_of(kF), "abc") << "the same boot";
  EXPECT_EQ(nodes_of(kG), "abc");
  EXPECT_EQ(cluster.starts, 6);
  EXPECT_FALSE(said("node-rebooted"));
}

TEST_F(SeveralNodes, WhatANodeHeldBeforeItsRebootIsStartedAnew) {
  apply(kF, 2, 600);
  step(5);
  ASSERT_EQ(nodes_of(kF), "ab");
  cluster.away = {"b"};
  step(5);
  EXPECT_EQ(cluster.starts, 2);
  cluster.reboot("b");
  cluster.devices[1].drained = true;
  cluster.away.clear();
  step(5);
  EXPECT_EQ(nodes_of(kF), "ac");
  EXPECT_EQ(cluster.starts, 3);
  EXPECT_TRUE(said("node-rebooted"));
}

TEST_F(SeveralNodes, AnInstanceOfANodeThatIsAwayIsStoppedWhenItIsBack) {
  apply(kF, 3, 600);
  step(5);
  cluster.away = {"b"};
  step(2);
  ASSERT_TRUE(Requests(*control).remove(kF, wall).ok());
  step(60);
  EXPECT_EQ(nodes_of(kF), "b");
  cluster.away.clear();
  step(15);
  EXPECT_EQ(nodes_of(kF), "");
  EXPECT_TRUE(cluster.seen.instances.empty());
}

TEST_F(SeveralNodes, AStartOnANodeThatWentAwayIsNotLost) {
  cluster.away = {"a", "c"};
  apply(kF, 1, 600);
  step(31);  // a and c are unknown
  ASSERT_EQ(cluster.starts, 1);
  cluster.away = {"b"};
  step(30);
  cluster.away.clear();
  step(3);
  EXPECT_EQ(cluster.starts, 1);
  EXPECT_FALSE(said("start-lost"));
}

TEST_F(SeveralNodes, TheNextLoopWaitsForANodeBeforeItStartsItsInstancesAnew) {
  apply(kF, 3, 600);
  step(5);
  ASSERT_EQ(cluster.starts, 3);
  cluster.away = {"b"};
  control->close();
  open();
  step(20);
  EXPECT_EQ(cluster.starts, 3);
  cluster.away.clear();
  step(20);
  EXPECT_EQ(cluster.starts, 3);
  EXPECT_EQ(nodes_of(kF), "abc");
}

TEST_F(SeveralNodes, AGatewayThatIsLongAwayNoLongerDelaysTheCountOfTheOther) {
  apply(kF, 1, 600);
  cluster.load[kF] = 40;
  step(5);
  cluster.away = {"other gateway"};
  step(30);
  EXPECT_NEAR(rate(), 20, 0.1) << "what the one that answers gets";
  cluster.away.clear();
  step(10);
  EXPECT_NEAR(rate(), 40, 0.1) << "no burst of what it counted meanwhile";
}

TEST_F(SeveralNodes, WithoutOneGatewayRatesAreUnknownAndNothingIsLost) {
  apply(kF, 1, 600);
  cluster.load[kF] = 40;
  step(10);
  EXPECT_NEAR(rate(), 40, 0.1);
  const uint64_t before = requests();
  cluster.away = {"other gateway"};
  step(9);
  EXPECT_NEAR(rate(), 40, 0.1) << "not the half";
  EXPECT_EQ(requests(), before);
  cluster.away.clear();
  step();
  EXPECT_EQ(requests(), before + 10 * 40);
  EXPECT_NEAR(rate(), 40, 0.1);
  cluster.restart_gateway();
  step(2);
  EXPECT_EQ(requests(), before + 12 * 40) << "both count from zero";
}

TEST_F(SeveralNodes, AGatewayThatComesBackIsGivenTheRoutesBeforeAnInstanceDrains) {
  apply(kF, 2, 600);
  step(5);
  const auto version = [&](size_t g) { return cluster.seen.gateways[g].routes_version; };
  ASSERT_EQ(version(0), version(1));
  cluster.away = {"other gateway"};
  ASSERT_TRUE(Requests(*control).remove(kF, wall).ok());
  step(3);
  EXPECT_GT(version(0), version(1));
  EXPECT_EQ(cluster.stops, 0) << "the other gateway may still route to them";
  cluster.away.clear();
  step(2);
  EXPECT_EQ(version(0), version(1));
  step(3);
  EXPECT_EQ(nodes_of(kF), "");
}

TEST_F(SeveralNodes, TheNextLoopCountsNothingTwice) {
  apply(kF, 1, 600);
  cluster.load[kF] = 40;
  step(10);
  const uint64_t before = requests();
  control->close();
  open();
  EXPECT_EQ(requests(), before);
  step(5);
  EXPECT_GE(requests(), before + 4 * 40);
  EXPECT_LE(requests(), before + 5 * 40);
}

}  // namespace
}  // namespace sluice::control
