// Instances as reservations of agents and as Pods, whatever dies between the two.
#include "tests/support/kube_cluster_fixture.h"

namespace sluice::control {
namespace {

TEST_F(KubeClusterTest, EachInstanceHasAReservationAndAPod) {
  apply(2);
  EXPECT_TRUE(comes("two instances", [&] { return serves(2); }));
  ticks(Seconds(60));
  EXPECT_TRUE(serves(2));
  EXPECT_EQ(starts(), 2);
  EXPECT_EQ(bed->objects.made.size(), 2u);
  const std::vector<InstancePod> pods = *bed->objects.pods();
  EXPECT_NE(pods[0].node, pods[1].node) << "each takes more than half of a device";
}

TEST_F(KubeClusterTest, APodIsOrderedAsSoonAsTheAgentHasAccepted) {
  observe();
  EXPECT_TRUE(eventually("a start",
                         [&] { return cluster->start(start_of("i")).ok() || (observe(), false); }));
  EXPECT_TRUE(bed->objects.all_pods.contains("i"));
}

TEST_F(KubeClusterTest, AnAgentThatAnswersAnOrderTooLateGetsThePodOnceItReportsTheInstance) {
  EXPECT_TRUE(eventually("its answer", [&] { return all_nodes_there(observe()); }));
  {
    const std::lock_guard lock(mutex);  // so that it does not answer
    EXPECT_EQ(cluster->start(start_of("i")).error().kind, ErrorKind::kTimeout);
  }
  EXPECT_TRUE(bed->objects.all_pods.empty());
  EXPECT_TRUE(
      eventually("its Pod", [&] { return observe(), bed->objects.all_pods.contains("i"); }));
}

TEST_F(KubeClusterTest, AnOrderThatTheAgentRefusesMakesNoPod) {
  {
    const std::lock_guard lock(mutex);
    truth.refuse_starts = true;
  }
  EXPECT_TRUE(eventually("a refusal", [&] {
    observe();
    const auto told = cluster->start(start_of("i"));
    return !told.ok() && told.error().kind == ErrorKind::kInternal;
  }));
  observe();
  EXPECT_EQ(bed->objects.orders, 0);
}

TEST_F(KubeClusterTest, AControllerThatLeadsNoMoreGivesNoOrders) {
  apply(1);
  EXPECT_TRUE(comes("an instance", [&] { return serves(1); }));
  bed->objects.is_leader = false;
  const InstanceId id = ready().at(0);
  const Result<void> orders[] = {
      cluster->start(start_of("i")), cluster->resize(id, start_of("i").instance.parts),
      cluster->stop(id, Seconds(1)), cluster->set_drained("a/cpu0", true)};
  for (const Result<void>& told : orders) EXPECT_EQ(told.error().kind, ErrorKind::kUnavailable);
  EXPECT_EQ(starts(), 1);
  EXPECT_EQ(stops(), 0);
}

TEST_F(KubeClusterTest, AControllerThatDiesBeforeThePodStartsAnotherInstance) {
  apply(1);
  bed->objects.lose_pods = true;
  EXPECT_TRUE(comes("a reservation", [&] { return bed->objects.orders == 1; }));
  const std::vector<InstanceId> first = in_state(InstanceState::kStarting);
  ASSERT_EQ(first.size(), 1u);
  take_over();
  bed->objects.lose_pods = false;
  EXPECT_TRUE(comes("an instance", [&] { return serves(1); }));
  EXPECT_EQ(starts(), 2);
  EXPECT_NE(ready(), first);
  EXPECT_EQ(bed->objects.made, std::set<InstanceId>{ready()[0]}) << "the first one never ran";
}

TEST_F(KubeClusterTest, AControllerThatDiesBehindThePodStartsNoOther) {
  apply(1);
  while (bed->objects.orders == 0) tick();
  EXPECT_EQ(bed->objects.all_pods.begin()->second.phase, "Pending");
  for (int i = 0; i < 3; ++i) {  // and so do the next ones
    take_over();
    tick();
    tick();
  }
  EXPECT_TRUE(comes("an instance", [&] { return serves(1); }));
  ticks(Seconds(30));
  EXPECT_TRUE(serves(1));
  EXPECT_EQ(starts(), 1);
  EXPECT_EQ(bed->objects.made.size(), 1u);
}

TEST_F(KubeClusterTest, AControllerThatDiesBetweenAgentAndPodOfAStopEndsBoth) {
  apply(1);
  EXPECT_TRUE(comes("an instance", [&] { return serves(1); }));
  const InstanceId id = ready()[0];
  {
    const std::lock_guard lock(mutex);
    find_instance(truth.seen.instances, id)->instance.state = InstanceState::kDraining;
  }
  take_over();
  EXPECT_TRUE(comes("another one", [&] { return serves(1) && ready()[0] != id; }));
  EXPECT_EQ(bed->objects.graces.at(id), InstancePods::kDrain);
}

TEST_F(KubeClusterTest, AStopDeletesThePodAtOnceWithinTheDrain) {
  apply(1);
  EXPECT_TRUE(comes("an instance", [&] { return serves(1); }));
  ticks(Seconds(1));
  const InstanceId id = ready()[0];
  EXPECT_TRUE(eventually(
      "a stop", [&] { return cluster->stop(id, Seconds(12)).ok() || (observe(), false); }));
  EXPECT_EQ(bed->objects.graces[id], Seconds(12));
}

TEST_F(KubeClusterTest, NothingIsMadeOrDeletedAtANodeThatIsSilent) {
  apply(2);
  EXPECT_TRUE(comes("two instances", [&] { return serves(2); }));
  const std::vector<InstanceId> before = ready();
  bed->agents["b"]->go();
  ticks(Seconds(60));
  const auto pods = bed->objects.pods();
  for (const InstancePod& pod : *pods)
    if (pod.node == "b") {
      EXPECT_EQ(cluster->stop(pod.instance, Nanos(0)).error().kind, ErrorKind::kUnavailable);
    }
  EXPECT_TRUE(bed->objects.graces.empty());
  EXPECT_EQ(bed->objects.made.size(), 2u);
  take_over();  // one that does not know what runs there
  ticks(Seconds(10));
  EXPECT_TRUE(bed->objects.graces.empty());
  bed->agents["b"]->come();
  ticks(Seconds(30));
  EXPECT_EQ(ready(), before);
  EXPECT_EQ(starts(), 2);
}

TEST_F(KubeClusterTest, ANodeThatWasRebootedLosesItsPodsAndGetsOthers) {
  apply(2);
  EXPECT_TRUE(comes("two instances", [&] { return serves(2); }));
  ticks(Seconds(2));
  const auto before = bed->objects.made;
  bed->agents["b"]->go();
  ticks(Seconds(2));
  {
    const std::lock_guard lock(mutex);
    truth.reboot("b");
    for (auto& [id, pod] : bed->objects.all_pods)
      if (pod.node == "b") pod.phase = "Failed";
  }
  bed->agents["b"]->come();
  EXPECT_TRUE(comes("another one", [&] { return bed->objects.made != before && serves(2); }));
  EXPECT_EQ(bed->objects.made.size(), 3u);
  EXPECT_EQ(said("node-rebooted").size(), 1u);
}

TEST_F(KubeClusterTest, APodThatItsNamespaceDoesNotTakeIsTriedAgainLater) {
  bed->objects.refuse = ErrorKind::kExhausted;
  apply(1);
  ASSERT_TRUE(comes("its refusal", [&] { return !said("instance-ended").empty(); }));
  EXPECT_THAT(said("instance-ended")[0],
              testing::HasSubstr("was ended by its node: its Pod cannot be made: exceeded quota"));
  ticks(Seconds(60));
  EXPECT_LT(starts(), 10) << "with exponential backoff";
  EXPECT_TRUE(said("start-given-up").empty()) << "it is not the revision's fault";
  bed->objects.refuse.reset();
  EXPECT_TRUE(comes("an instance", [&] { return serves(1); }));
}

TEST_F(KubeClusterTest, APodThatCanNeverBeMadeIsGivenUp) {
  bed->objects.refuse = ErrorKind::kInvalid;
  apply(1);
  EXPECT_TRUE(comes("that it is given up", [&] { return !said("start-given-up").empty(); }));
  const int tries = starts();
  ticks(Seconds(120));
  EXPECT_EQ(starts(), tries);
  EXPECT_TRUE(in_state(InstanceState::kStarting).empty());
}

TEST_F(KubeClusterTest, AnInstanceWhosePodIsDeletedByAnotherIsReplaced) {
  apply(1);
  EXPECT_TRUE(comes("an instance", [&] { return serves(1); }));
  const InstanceId id = ready()[0];
  bed->objects.all_pods[id].deleting = true;
  tick();
  EXPECT_FALSE(bed->objects.routes.functions.at("f").instances.at(0).ready) << "nothing goes there";
  EXPECT_TRUE(comes("another one", [&] { return serves(1) && ready()[0] != id; }));
}

}  // namespace
}  // namespace sluice::control
