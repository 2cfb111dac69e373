// fapes_memory: what a round leaves to the next one.
#include "policy/plan/fapes_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/deal_table.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class FapesMemoryTest : public testing::Test {
 protected:
  FapesMemoryTest() : nodes({4, 4}) {
    nodes.table.names = {"left", "right"};
    nodes.job("j", {});
    nodes.job("j2", {});
    FapesRecord r{.planned = true,
                  .noise = 7,
                  .measured = true,
                  .past_goodput = 5,
                  .past_seconds = 600,
                  .at = 1000,
                  .done = 42,
                  .achievement = 0.5};
    r.schedule = {{}, {{0, 2}}, {{0, 2}, {1, 4}}};
    FapesMemory(nodes.table, Seconds(600)).remember({r, {}}, Board({4, 4}, 4));
  }
  FapesRecord after(Nanos time) {
    nodes.table.now += time;
    return FapesMemory(nodes.table, Seconds(600)).of(0);
  }

  DealTable nodes;
};

TEST_F(FapesMemoryTest, RecordsComeBack) {
  const FapesRecord r = after(Seconds(0));
  EXPECT_TRUE(r.planned && r.measured);
  EXPECT_FALSE(r.lacks_node);
  EXPECT_EQ(r.noise, 7);
  EXPECT_EQ(r.past_goodput, 5);
  EXPECT_EQ(r.past_seconds, 600);
  EXPECT_EQ(r.at, 1000);
  EXPECT_EQ(r.done, 42);
  EXPECT_EQ(r.achievement, 0.5);
  EXPECT_THAT(r.schedule,
              ElementsAre(IsEmpty(), ElementsAre(Pair(0, 2)), ElementsAre(Pair(0, 2), Pair(1, 4))));
  EXPECT_FALSE(FapesMemory(nodes.table, Seconds(600)).of(1).planned) << "a name that begins alike";
}

TEST_F(FapesMemoryTest, RoundsThatAreOverAreLeftOut) {
  EXPECT_THAT(after(Seconds(300)).schedule, testing::SizeIs(3)) << "a decision amid a round";
  EXPECT_THAT(after(Seconds(300)).schedule,
              ElementsAre(ElementsAre(Pair(0, 2)), ElementsAre(Pair(0, 2), Pair(1, 4))));
  EXPECT_THAT(after(Seconds(6000)).schedule, IsEmpty());
}

TEST_F(FapesMemoryTest, ARoundThatEndsALittleEarlyIsOver) {
  EXPECT_THAT(after(Millis(599'900)).schedule, testing::SizeIs(2));
}

TEST_F(FapesMemoryTest, NodesAreKnownByName) {
  nodes.table.names = {"right", "new"};
  const FapesRecord r = after(Seconds(600));
  EXPECT_TRUE(r.lacks_node);
  EXPECT_THAT(r.schedule, ElementsAre(IsEmpty(), ElementsAre(Pair(0, 4))));
}

TEST_F(FapesMemoryTest, WhatIsNotRememberedAgainIsForgotten) {
  FapesMemory(nodes.table, Seconds(600)).remember({{}, {}}, Board({4, 4}, 4));
  EXPECT_EQ(nodes.memory.numbers.size(), 2u) << "the round and the bounds alone";
}

}  // namespace
}  // namespace sluice::policy
