// Agents that come, go silent and return, and how they are polled.
#include "tests/support/kube_cluster_fixture.h"

namespace sluice::control {
namespace {

TEST_F(KubeClusterTest, QuietAgentsOfALargeClusterAreAskedInTurns) {
  for (int i = 10; i < 40; ++i) {
    const std::string node = "n" + std::to_string(i);
    {
      const std::lock_guard lock(mutex);
      truth.add_node(node);
    }
    bed->add_agent(node);
  }
  const auto asked_by_an_observation = [&] {
    const Observation o = observe();
    EXPECT_EQ(o.devices.size(), 32u);
    EXPECT_TRUE(all_nodes_there(o));
    const std::lock_guard lock(mutex);
    return std::exchange(bed->asked, {});
  };
  EXPECT_EQ(asked_by_an_observation().size(), 32u) << "none has answered yet";
  std::set<std::string> asked;
  for (int i = 0; i < 4; ++i) {
    std::set<std::string> now = asked_by_an_observation();
    EXPECT_EQ(now.size(), 10u);
    asked.merge(now);
  }
  EXPECT_EQ(asked.size(), 32u);
  ASSERT_TRUE(cluster->start(start_of("i")).ok());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(asked_by_an_observation().contains("a")) << "it starts";
  bed->clock.advance(Seconds(1));
  EXPECT_EQ(asked_by_an_observation().size(), 32u) << "a turn takes 2 ms";
}

TEST_F(KubeClusterTest, MoreReplicasStartNothingAnew) {
  apply(1);
  ASSERT_TRUE(comes("an instance", [&] { return serves(1); }));
  const InstanceId first = ready().at(0);
  apply(2);
  ASSERT_TRUE(comes("another", [&] { return serves(2); }));
  EXPECT_THAT(ready(), testing::Contains(first));
  EXPECT_EQ(control->functions().at(kF).stored.newest, 1);
  EXPECT_EQ(stops(), 0);
}

TEST_F(KubeClusterTest, NothingIsListedBeforeTheListingsAreComplete) {
  bed->objects.is_listed = false;
  bed->objects.all_pods["p"] = {.instance = "p", .space = "default", .node = "a"};
  for (int i = 0; i < 100; ++i) {
    bed->clock.advance(Seconds(1));
    const Observation o = observe();
    EXPECT_TRUE(o.nodes.empty());
    EXPECT_TRUE(o.gateways.empty());
  }
  EXPECT_FALSE(bed->objects.all_pods["p"].deleting);
}

TEST_F(KubeClusterTest, NodesComeAndGoWithTheirAgents) {
  const auto devices = [&] {
    std::string all;
    for (const Device& d : observe().devices) all += d.id + " of " + d.node + ", ";
    return all;
  };
  EXPECT_TRUE(eventually("both", [&] { return devices() == "a/cpu0 of a, b/cpu0 of b, "; }));
  {
    const std::lock_guard lock(mutex);
    truth.add_node("c");
  }
  bed->objects.all_agents.push_back({.node = "c", .endpoint = "", .pod = ""});
  const Observation without_agent = observe();
  const ObservedNode* c = find_node(without_agent, "c");
  ASSERT_NE(c, nullptr) << "a node that should have an agent is listed";
  EXPECT_FALSE(c->node.reachable);
  bed->objects.all_agents.pop_back();
  bed->add_agent("c");
  EXPECT_TRUE(eventually("the third", [&] { return devices().ends_with("c/cpu0 of c, "); }));
  bed->objects.all_agents.pop_back();
  EXPECT_EQ(find_node(observe(), "c"), nullptr);
}

TEST_F(KubeClusterTest, AnAgentIsFoundAtItsNewAddress) {
  bed->objects.all_agents[0].endpoint = "unix:/nothing/here";
  EXPECT_TRUE(eventually("that b answers and a does not", [&] {
    const Observation o = observe();
    return find_node(o, "b")->node.reachable && !find_node(o, "a")->node.reachable;
  }));
  bed->objects.all_agents.erase(bed->objects.all_agents.begin());
  bed->add_agent("a");
  EXPECT_TRUE(eventually("both", [&] { return all_nodes_there(observe()); }));
}

TEST_F(KubeClusterTest, AnAgentThatHangsDelaysOneTick) {
  const TemporaryFolder folder;
  std::optional<Fd> hung = std::move(*wire::listen_on({.path = folder.path + "/hung"}));
  EXPECT_TRUE(eventually("both", [&] { return all_nodes_there(observe()); }));
  bed->objects.all_agents[1].endpoint = "unix:" + folder.path + "/hung";
  cluster->poll();
  EXPECT_FALSE(cluster->settled());
  EXPECT_TRUE(eventually("that it is away", [&] { return cluster->settled(); }));
  EXPECT_FALSE(find_node(cluster->observe(), "b")->node.reachable);
  cluster->poll();
  // Only the others are waited for; a busy machine may take its time.
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(eventually("the others", [&] { return cluster->settled(); }));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, Cluster::kAway);
  EXPECT_TRUE(eventually("a", [&] { return find_node(observe(), "a")->node.reachable; }));
  hung.reset();  // its call ends
}

}  // namespace
}  // namespace sluice::control
