// What is done of instances without Pods and of Pods without instances, by reports and listings.
#include "control/kube/instance_pods.h"

#include <gmock/gmock.h>

namespace sluice::control {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

constexpr Nanos kMoment = Millis(250);

class InstancePodsTest : public testing::Test {
 protected:
  InstancePodsTest() { node("a").node.reachable = true; }

  ObservedNode& node(const std::string& name) {
    for (ObservedNode& n : seen.nodes)
      if (n.node.name == name) return n;
    return seen.nodes.emplace_back(ObservedNode{.node = {.name = name}});
  }
  static Instance instance(const InstanceId& id, InstanceState state) {
    return {.id = id, .function = {.space = "team", .name = "f"}, .revision = 1, .state = state};
  }
  void reported(const InstanceId& id, InstanceState state = InstanceState::kStarting) {
    seen.instances = {{.instance = instance(id, state), .node = "a"}};
  }
  void listed(const InstanceId& id, const std::string& phase = "Running") {
    listing = {{.instance = id, .space = "team", .node = "a", .phase = phase}};
  }
  void order(const InstanceId& id, bool made) {
    pods.ordered({instance(id, InstanceState::kStarting), ForkOfTemplate{}, "a"}, made,
                 clock.now());
  }
  InstancePods::Plan step(Nanos later = kMoment) {
    clock.advance(later);
    return pods.step(seen, listing, clock.now());
  }
  // Returns what steps order within a minute, in words.
  std::vector<std::string> within_a_minute() {
    std::vector<std::string> all;
    for (int i = 0; i < 240; ++i) note(step(), all);
    return all;
  }
  static void note(const InstancePods::Plan& plan, std::vector<std::string>& all) {
    for (const PodOrder& o : plan.make) all.push_back("make " + o.instance.id);
    for (const auto& r : plan.remove)
      all.push_back("remove " + r.space + "/" + r.instance + " " +
                    std::to_string(r.grace / Seconds(1)) + " s");
    for (const InstanceId& id : plan.stop) all.push_back("stop " + id);
  }
  static std::vector<std::string> words(const InstancePods::Plan& plan) {
    std::vector<std::string> all;
    note(plan, all);
    return all;
  }

  ManualClock clock;
  InstancePods pods;
  Observation seen;
  std::vector<InstancePod> listing;
};

TEST_F(InstancePodsTest, WhatHasItsPodIsLeftAlone) {
  order("i", true);
  reported("i");
  EXPECT_THAT(words(step()), IsEmpty()) << "it has been ordered";
  listed("i");
  EXPECT_THAT(within_a_minute(), IsEmpty());
  reported("i", InstanceState::kReady);
  EXPECT_THAT(within_a_minute(), IsEmpty());
}

// The agent did not answer the order in time, and has carried it out.
TEST_F(InstancePodsTest, AnAcceptedInstanceGetsItsPodOnceItsAgentReportsIt) {
  order("i", false);
  EXPECT_THAT(words(step()), IsEmpty());
  reported("i");
  EXPECT_THAT(words(step()), ElementsAre("make i"));
  EXPECT_THAT(words(step()), IsEmpty()) << "it may take a moment";
  EXPECT_THAT(words(step(InstancePods::kAgain)), ElementsAre("make i")) << "it was lost";
  listed("i");
  EXPECT_THAT(words(step()), IsEmpty());
  listing.clear();
  EXPECT_THAT(words(step(InstancePods::kAgain)), IsEmpty()) << "an instance has one life";
}

// The controller has died between the two orders.
TEST_F(InstancePodsTest, AnInstanceThatStartsWithoutAPodAndAnOrderIsEnded) {
  reported("i");
  EXPECT_THAT(words(step()), IsEmpty());
  EXPECT_THAT(words(step(InstancePods::kSettle)), ElementsAre("stop i"));
  EXPECT_THAT(words(step()), IsEmpty());
  EXPECT_THAT(words(step(InstancePods::kAgain)), ElementsAre("stop i")) << "it did not arrive";
  reported("i", InstanceState::kDraining);
  EXPECT_THAT(within_a_minute(), IsEmpty());
}

TEST_F(InstancePodsTest, OneThatIsReadyWithoutAPodIsItsAgentsToEnd) {
  reported("i", InstanceState::kReady);
  EXPECT_THAT(within_a_minute(), IsEmpty());
}

TEST_F(InstancePodsTest, ThePodOfAnInstanceThatItsAgentDoesNotHaveIsDeleted) {
  listed("i");
  EXPECT_THAT(words(step()), IsEmpty()) << "the report may be older";
  EXPECT_THAT(words(step(InstancePods::kSettle)), ElementsAre("remove team/i 30 s"));
  EXPECT_THAT(words(step()), IsEmpty());
  listing[0].deleting = true;
  EXPECT_THAT(within_a_minute(), IsEmpty());
}

// Any user may make one, with our labels.
TEST_F(InstancePodsTest, APodOfAnotherNamespaceIsNotTheInstances) {
  const InstancePod foreign{
      .instance = "i", .space = "other", .node = "a", .phase = "Failed", .deleting = true};
  order("i", true);
  reported("i", InstanceState::kReady);
  listed("i");
  listing.insert(listing.begin(), foreign);
  EXPECT_THAT(within_a_minute(), IsEmpty());
  pods.explain(seen);
  EXPECT_EQ(seen.instances[0].instance.state, InstanceState::kReady);
  listing[0].deleting = false;
  EXPECT_THAT(within_a_minute(), AllOf(Not(IsEmpty()), Each("remove other/i 30 s")))
      << "it has no instance";
}

TEST_F(InstancePodsTest, AnOrderIsNotFulfilledByAPodOfAnotherNamespace) {
  order("i", false);
  listing = {{.instance = "i", .space = "other", .node = "a", .phase = "Running"}};
  step();
  reported("i");
  EXPECT_THAT(words(step()), testing::Contains("make i"));
}

TEST_F(InstancePodsTest, NothingIsDoneAtANodeThatDoesNotAnswer) {
  node("a").node.reachable = false;
  listed("i");
  order("j", true);
  EXPECT_THAT(within_a_minute(), IsEmpty());
  node("a").node.reachable = true;
  reported("j");
  EXPECT_THAT(words(step()), ElementsAre("make j")) << "its order is not forgotten";
  EXPECT_THAT(words(step(InstancePods::kSettle)), testing::Contains("remove team/i 30 s"));
}

TEST_F(InstancePodsTest, ThePodOfANodeThatHasLeftIsDeleted) {
  listed("i");
  listing[0].node = "gone";
  EXPECT_THAT(words(step()), IsEmpty());
  EXPECT_THAT(words(step(InstancePods::kSettle)), ElementsAre("remove team/i 30 s"));
}

TEST_F(InstancePodsTest, AnInstanceThatDrainsLosesItsPodWithinItsDrain) {
  reported("i", InstanceState::kDraining);
  listed("i");
  pods.stopped("i", Seconds(12), false, clock.now());
  EXPECT_THAT(words(step()), ElementsAre("remove team/i 12 s"));
  EXPECT_THAT(words(step()), IsEmpty());
}

// An earlier controller has told its agent.
TEST_F(InstancePodsTest, OneThatDrainsForAnotherReasonLosesItToo) {
  reported("i", InstanceState::kDraining);
  listed("i");
  EXPECT_THAT(words(step()), ElementsAre("remove team/i 30 s"));
}

TEST_F(InstancePodsTest, TheDeletionThatTheStopOrderedIsNotOrderedAgain) {
  listed("i");
  reported("i", InstanceState::kReady);
  step();
  pods.stopped("i", Seconds(12), true, clock.now());
  reported("i", InstanceState::kDraining);
  EXPECT_THAT(words(step()), IsEmpty());
}

TEST_F(InstancePodsTest, AnInstanceWhosePodHasEndedIsEndedAndSaysWhy) {
  order("i", true);
  reported("i");
  listed("i", "Failed");
  listing[0].reason = "OutOfcpu";
  listing[0].message = "Node didn't have enough resource: cpu";
  listing[0].by_cluster = true;
  EXPECT_THAT(words(step()), IsEmpty()) << "its agent may see it by itself";
  EXPECT_THAT(words(step(InstancePods::kSettle)), ElementsAre("stop i"));
  reported("i", InstanceState::kGone);
  seen.instances[0].stopped = true;
  step();
  pods.explain(seen);
  EXPECT_FALSE(seen.instances[0].stopped);
  EXPECT_TRUE(seen.instances[0].node_fault);
  EXPECT_EQ(seen.instances[0].error,
            "its Pod team/i is Failed: OutOfcpu: Node didn't have enough resource: cpu");
}

TEST_F(InstancePodsTest, AnInstanceWhosePodLacksItsImageIsEndedAfterAWhile) {
  order("i", true);
  reported("i");
  listed("i", "Pending");
  listing[0].reason = "ContainerCreating";
  EXPECT_THAT(within_a_minute(), IsEmpty()) << "an image may be large";
  listing[0].reason = "ErrImagePull";
  step();
  listing[0].reason = "ImagePullBackOff";
  EXPECT_THAT(words(step(Seconds(10))), IsEmpty()) << "it may come";
  EXPECT_THAT(words(step(InstancePods::kStuck)), ElementsAre("stop i"));
  reported("i", InstanceState::kGone);
  seen.instances[0].stopped = true;
  step();
  pods.explain(seen);
  EXPECT_TRUE(seen.instances[0].node_fault) << "it is tried again until the image is there";
  EXPECT_EQ(seen.instances[0].error, "its Pod team/i is Pending: ImagePullBackOff");
}

TEST_F(InstancePodsTest, APodThatCannotBeMadeEndsItsInstance) {
  for (const ErrorKind kind : {ErrorKind::kInvalid, ErrorKind::kExhausted}) {
    const InstanceId id = kind == ErrorKind::kInvalid ? "i" : "j";
    order(id, true);
    pods.failed({id, kind, "exceeded quota: q"});
    EXPECT_THAT(words(step()), IsEmpty()) << "its agent does not report it yet";
    reported(id);
    EXPECT_THAT(words(step()), ElementsAre("stop " + id));
    reported(id, InstanceState::kGone);
    seen.instances[0].stopped = true;
    step();
    pods.explain(seen);
    EXPECT_EQ(seen.instances[0].error, "its Pod cannot be made: exceeded quota: q");
    EXPECT_FALSE(seen.instances[0].stopped);
    EXPECT_EQ(seen.instances[0].node_fault, kind == ErrorKind::kExhausted);
  }
}

TEST_F(InstancePodsTest, AnInstanceThatItsAgentEndedHasItsAgentsReason) {
  order("i", true);
  reported("i");
  pods.failed({"i", ErrorKind::kDenied, "forbidden"});
  EXPECT_THAT(words(step()), ElementsAre("stop i"));
  reported("i", InstanceState::kGone);
  seen.instances[0].error = "the daemon was restarted";
  pods.explain(seen);
  EXPECT_EQ(seen.instances[0].error, "the daemon was restarted");
}

TEST_F(InstancePodsTest, AFailureThatNoAgentReportsIsForgotten) {
  pods.failed({"i", ErrorKind::kDenied, "forbidden"});
  step();
  step(InstancePods::kForget);
  order("i", false);
  reported("i");
  EXPECT_THAT(words(step()), ElementsAre("make i"));
}

TEST_F(InstancePodsTest, WhatIsStoppedIsNotMadeAnyMore) {
  order("i", false);
  pods.stopped("i", Nanos(0), false, clock.now());
  reported("i");
  EXPECT_THAT(words(step()), IsEmpty());
}

TEST_F(InstancePodsTest, AnInstanceWhosePodIsBeingDeletedDrains) {
  reported("i", InstanceState::kReady);
  listed("i");
  listing[0].deleting = true;
  EXPECT_THAT(words(step()), IsEmpty());
  pods.explain(seen);
  EXPECT_EQ(seen.instances[0].instance.state, InstanceState::kDraining);
}

TEST_F(InstancePodsTest, ForeignProgramsAndThoseOfProfilesAreNoPods) {
  reported("i");
  seen.instances[0].foreign = true;
  seen.instances.push_back(seen.instances[0]);
  seen.instances[1].instance.id = "j";
  seen.instances[1].foreign = false;
  seen.instances[1].instance.function.space = kProfiling;
  EXPECT_THAT(within_a_minute(), IsEmpty());
}

}  // namespace
}  // namespace sluice::control
