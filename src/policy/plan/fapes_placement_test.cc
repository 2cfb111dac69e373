// fapes_placement: which devices a job takes in a round, and which it gives up.
#include "policy/plan/fapes_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/deal_table.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr BatchRange kLargeBatch{.least = 6400, .most = 6400};

class FapesPlacement : public testing::Test {
 protected:
  FapesPlacement() : nodes({4, 4, 4}), board({4, 4, 4}, 1) {
    nodes.job("linear", {.step = step_linear(), .batch = kLargeBatch});
    nodes.job("compact", {.step = step_within_a_node()});
    board.set_bounds(60, 20'000);
  }
  FapesRound round(const char* name) const {
    return {board, 0, nodes.table.jobs[name == std::string("compact")], held};
  }

  DealTable nodes;
  Board board;
  Placed held, placed;
};

TEST_F(FapesPlacement, EqualNodesAreFilledOneByOne) {
  ASSERT_TRUE(grow(round("compact"), 4, placed));
  EXPECT_THAT(placed, ElementsAre(Pair(0, 4)));
  ASSERT_TRUE(grow(round("linear"), 6, placed));
  EXPECT_THAT(placed, ElementsAre(Pair(0, 4), Pair(1, 2)));
}

TEST_F(FapesPlacement, TheCheapestNodeComesFirst) {
  board.add({{{0, 2}, {1, 1}}});
  ASSERT_TRUE(grow(round("linear"), 4, placed));
  EXPECT_THAT(placed, ElementsAre(Pair(2, 4)));
  ASSERT_TRUE(grow(round("linear"), 9, placed));
  EXPECT_THAT(placed, ElementsAre(Pair(0, 2), Pair(1, 3), Pair(2, 4)));
  EXPECT_FALSE(grow(round("linear"), 10, placed)) << "three are held by others";
}

TEST_F(FapesPlacement, OfEqualNodesTheOneWhereTheJobIs) {
  held = {{1, 2}};
  ASSERT_TRUE(grow(round("linear"), 2, placed));
  EXPECT_THAT(placed, ElementsAre(Pair(1, 2)));
}

TEST_F(FapesPlacement, ANodeThatMakesItSlowerComesAfterDearerOnes) {
  board.add({{{0, 1}}});
  placed = {{0, 1}};
  ASSERT_TRUE(grow(round("compact"), 3, placed));
  EXPECT_THAT(placed, ElementsAre(Pair(0, 3))) << "nodes 1 and 2 are cheaper";
  ASSERT_TRUE(grow(round("compact"), 4, placed));
  EXPECT_THAT(placed, ElementsAre(Pair(0, 3), Pair(1, 1))) << "there is no other way";
}

TEST_F(FapesPlacement, TheDearestAreGivenUp) {
  board.add({{{0, 1}, {1, 2}}});
  placed = {{0, 2}, {1, 2}, {2, 2}};
  shrink(round("linear"), 3, placed);
  EXPECT_THAT(placed, ElementsAre(Pair(0, 1), Pair(2, 2)));
  shrink(round("linear"), 0, placed);
  EXPECT_THAT(placed, IsEmpty());
}

TEST_F(FapesPlacement, OfEquallyDearNodesTheOneWithFewestOfTheJob) {
  placed = {{0, 1}, {1, 3}};
  shrink(round("linear"), 3, placed);
  EXPECT_THAT(placed, ElementsAre(Pair(1, 3)));
}

TEST_F(FapesPlacement, WhatOthersHoldIsDropped) {
  board.add({{{0, 3}, {1, 4}}});
  EXPECT_THAT(within_free(round("linear"), {{0, 2}, {1, 2}, {2, 2}, {9, 1}}),
              ElementsAre(Pair(0, 1), Pair(2, 2)));
}

TEST_F(FapesPlacement, OnOneNodeTheCheapestThatHasThemAll) {
  board.add({{{0, 2}, {1, 1}, {2, 1}}});
  EXPECT_THAT(on_one_node(round("compact"), 3), testing::Optional(ElementsAre(Pair(1, 3))));
  held = {{2, 1}};
  EXPECT_THAT(on_one_node(round("compact"), 3), testing::Optional(ElementsAre(Pair(2, 3))));
  EXPECT_EQ(on_one_node(round("compact"), 4), std::nullopt);
}

}  // namespace
}  // namespace sluice::policy
