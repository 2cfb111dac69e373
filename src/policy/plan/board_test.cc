// board: loads, prices and classes of nodes over rounds.
#include "policy/plan/board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace sluice::policy {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

TEST(Board, APriceRisesFromTheLeastTimeToTheMost) {
  Board board({4}, 1);
  board.set_bounds(60, 20'000);
  EXPECT_DOUBLE_EQ(board.price(0, 0), 60) << "an empty node";
  board.add({{{0, 2}}});
  EXPECT_THAT(board.price(0, 0), DoubleNear(std::sqrt(60 * 20'000.0), 1e-6)) << "half of it held";
  board.add({{{0, 2}}});
  EXPECT_DOUBLE_EQ(board.price(0, 0), 20'000) << "a full one";
}

TEST(Board, BoundsAreKeptApart) {
  Board board({1}, 2);
  board.add({{{0, 1}}});
  board.set_bounds(0.1, 0.1);
  EXPECT_DOUBLE_EQ(board.price(1, 0), 1);
  EXPECT_NEAR(board.price(0, 0), std::exp(1), 1e-9);
  board.set_bounds(2, 1e9);
  EXPECT_DOUBLE_EQ(board.price(0, 0), 2e4);
}

TEST(Board, APlanHoldsItsDevicesInItsRounds) {
  Board board({4, 2}, 3);
  const Schedule plan = {{{0, 3}}, {}, {{0, 1}, {1, 2}}};
  ASSERT_TRUE(board.fits(plan));
  board.add(plan);
  EXPECT_EQ(board.free(0, 0), 1);
  EXPECT_EQ(board.free(1, 0), 4);
  EXPECT_EQ(board.free(2, 1), 0);
  EXPECT_EQ(board.free(2), 3);
  EXPECT_FALSE(board.fits({{{0, 2}}}));
  EXPECT_TRUE(board.fits({{}, {{0, 2}}}));
  EXPECT_FALSE(board.fits({{{7, 1}}})) << "no such node";
  board.remove(plan);
  EXPECT_EQ(board.free(2), 6);
}

TEST(Board, RoundsBeyondItsLastOneAreNotKept) {
  Board board({1}, 1);
  const Schedule longer = {{{0, 1}}, {{0, 1}}, {{0, 1}}};
  ASSERT_TRUE(board.fits(longer));
  board.add(longer);
  board.remove(longer);
  EXPECT_EQ(board.free(0), 1);
}

TEST(Board, NodesThatAreEquallyFullAreAClass) {
  Board board({4, 4, 4, 0}, 1);
  board.add({{{1, 2}}});
  std::vector<std::vector<uint32_t>> nodes;
  for (size_t c = 0; c < board.classes(); ++c) {
    const auto in = board.nodes_in(0, c);
    if (!in.empty()) nodes.emplace_back(in.begin(), in.end());
  }
  EXPECT_THAT(nodes, ElementsAre(ElementsAre(0, 2), ElementsAre(1), ElementsAre(3)));
  EXPECT_EQ(board.cheapest(0), board.price(0, 0));
  board.add({{{0, 4}, {1, 2}, {2, 4}}});
  EXPECT_EQ(board.cheapest(0), std::numeric_limits<double>::infinity());
}

TEST(Board, APriceNeverFallsWhenLoadRises) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const int devices = static_cast<int>(random.between(1, 16));
    Board board({devices, devices + 1}, 2);
    board.set_bounds(random.uniform() * 100, random.uniform() * 1e6);
    double before = 0;
    for (int held = 0; held <= devices; ++held) {
      EXPECT_GT(board.price(0, 0), before);
      EXPECT_LE(board.price(1, 0), board.price(0, 0)) << "the next round is empty";
      before = board.price(0, 0);
      if (held < devices) board.add({{{0, 1}}});
    }
    for (size_t c = 1; c < board.classes(); ++c)
      EXPECT_LE(board.price_in(c - 1), board.price_in(c));
  }
}

}  // namespace
}  // namespace sluice::policy
