#include "control/policies.h"

#include <gtest/gtest.h>

#include <utility>

#include "predict/profile_table.h"

namespace sluice::control {
namespace {

class PoliciesTest : public testing::Test {
 protected:
  PoliciesTest() {
    snapshot.devices.push_back({.id = "cpu0", .millicores = 1000, .memory = 1 << 30});
    snapshot.functions.resize(1);
    snapshot.functions[0].spec.name.name = "f";
    snapshot.functions[0].revision = 1;
    changes = unchanged();
  }
  // Returns whether the policy ran a quarter of a second later.
  bool tick() {
    snapshot.now += Millis(250);
    if (!policies.due(snapshot.now)) return false;
    actions = policies.decide(snapshot, std::exchange(changes, unchanged()), predictor, boot);
    return policies.ran();
  }
  SnapshotChanges unchanged() const { return {std::vector<bool>(snapshot.functions.size())}; }
  bool due(size_t f) const { return snapshot.functions[f].due; }

  Policies policies{{"has-gpu", {}}, 1, Seconds(1)};
  predict::ProfileTable predictor;
  Snapshot snapshot{.now = Time(std::chrono::hours(1))};
  SnapshotChanges changes;  // of the next tick
  std::vector<Action> actions;
  std::string boot = "boot";
};

TEST_F(PoliciesTest, WhatDoesNotChangeIsDecidedOnceASecond) {
  EXPECT_TRUE(tick());
  EXPECT_EQ(actions.size(), 1u) << "its one instance";
  for (int n = 0; n < 3; ++n) EXPECT_FALSE(tick());
  EXPECT_TRUE(tick());
  changes.functions[0] = true;
  EXPECT_TRUE(tick());
  EXPECT_TRUE(due(0));
}

TEST_F(PoliciesTest, OnlyWhatChangedIsDecided) {
  snapshot.functions.push_back(snapshot.functions[0]);
  snapshot.functions[1].spec.name.name = "g";
  changes = unchanged();
  EXPECT_TRUE(tick());
  EXPECT_TRUE(due(0) && due(1));
  changes.functions[1] = true;
  EXPECT_TRUE(tick());
  EXPECT_TRUE(!due(0) && due(1));
  changes.instances = true;
  EXPECT_FALSE(tick()) << "an instance of neither";
  changes.devices = true;
  EXPECT_TRUE(tick());
  EXPECT_TRUE(due(0) && due(1));
}

TEST_F(PoliciesTest, WhatWentWithoutIsDecidedWhenRoomMayHaveComeFree) {
  snapshot.devices.clear();
  EXPECT_TRUE(tick());
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<Unmet>(actions[0].what));
  EXPECT_FALSE(tick());
  changes.instances = true;
  EXPECT_TRUE(tick());
}

// What one has done by now changes in each tick. It goes on by itself, so its plan need not.
TEST_F(PoliciesTest, JobsAreDecidedTogetherAndAtRestEveryFiveSeconds) {
  for (const char* name : {"j", "k"}) {
    FunctionView& view = snapshot.functions.emplace_back();
    view.spec.name.name = name;
    view.spec.kind = TrainingSpec{};
  }
  changes = unchanged();
  EXPECT_TRUE(tick());
  EXPECT_TRUE(due(1) && due(2));
  int decided = 0;
  for (int n = 0; n < 39; ++n) decided += tick() && due(1);
  EXPECT_EQ(decided, 1);
  changes.functions[2] = true;
  EXPECT_TRUE(tick());
  EXPECT_TRUE(due(1) && due(2));
}

TEST_F(PoliciesTest, AllDecideWhenAskedTo) {
  EXPECT_TRUE(tick());
  policies.at_once();
  EXPECT_TRUE(tick());
}

TEST_F(PoliciesTest, WhatAPolicyRemembersOfADeletedFunctionIsForgotten) {
  policies.restore(
      {{"kpa", {.numbers = {{"default/f@1", {1}}, {"default/f@2 on a", {2}}}}},
       {"elastic",
        {.numbers = {{"changed default/f", {3}}, {"cluster", {4}}, {"default/f2@1", {5}}}}}},
      boot);
  policies.forget({.name = "f"});
  EXPECT_TRUE(policies.memories().at("kpa").numbers.empty());
  EXPECT_EQ(policies.memories().at("elastic").numbers.size(), 2u);
}

TEST_F(PoliciesTest, WhatAPolicyRemembersIsOfOneBoot) {
  policies.restore({{"has-gpu", {.numbers = {{"cluster", {1, 2}}}}}}, "boot");
  tick();
  EXPECT_EQ(policies.memories().at("has-gpu").numbers.size(), 1u);
  boot = "another";
  changes.functions[0] = true;
  EXPECT_TRUE(tick());
  EXPECT_TRUE(policies.memories().at("has-gpu").numbers.empty());
  EXPECT_EQ(policies.boot(), "another");
}

}  // namespace
}  // namespace sluice::control
