#include "predict/box_newton.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::predict {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

// 100·(y − x²)² + (1 − x)²: a bent valley whose bottom is at (1, 1).
Local<2> valley(const Vector<2>& at) {
  Local<2> f;
  f.add_square(200, at[1] - at[0] * at[0], {-2 * at[0], 1});
  f.add_square(2, 1 - at[0], {-1, 0});
  return f;
}

TEST(BoxNewton, FollowsABentValleyToItsBottom) {
  const auto least = minimise(valley, {-1.2, 1}, Box<2>{.low = {-5, -5}, .high = {5, 5}});
  EXPECT_THAT(least.at, ElementsAre(DoubleNear(1, 1e-4), DoubleNear(1, 1e-4)));
  EXPECT_LT(least.value, 1e-8);
}

TEST(BoxNewton, StopsAtTheBoundThatLiesBeforeTheBottom) {
  const auto least = minimise(valley, {-1.2, 1}, Box<2>{.low = {-5, -5}, .high = {0.5, 5}});
  EXPECT_THAT(least.at, ElementsAre(0.5, DoubleNear(0.25, 1e-6)));
}

TEST(BoxNewton, AVariableWithEqualBoundsStaysAndTheOthersMove) {
  const auto least = minimise(valley, {0, 3}, Box<2>{.low = {2, -5}, .high = {2, 5}});
  EXPECT_THAT(least.at, ElementsAre(2, DoubleNear(4, 1e-6)));
}

TEST(BoxNewton, WhatTheFunctionDoesNotDependOnStaysWhereItBegan) {
  const auto parabola = [](const Vector<2>& at) {
    Local<2> f;
    f.add_square(1, at[0] - 3, {1, 0});
    return f;
  };
  const auto least = minimise(parabola, {0, 0.7}, Box<2>{.low = {-9, -9}, .high = {9, 9}});
  EXPECT_THAT(least.at, ElementsAre(DoubleNear(3, 1e-4), 0.7));
}

TEST(BoxNewton, ScalesThatDifferByTwelveOrdersDoNotMatter) {
  const auto far = [](const Vector<2>& at) {
    Local<2> f;
    f.add_square(1, at[0] * 1e-6 + at[1] * 1e6 - 3, {1e-6, 1e6});
    f.add_square(1, at[0] * 1e-6 - at[1] * 1e6 - 1, {1e-6, -1e6});
    return f;
  };
  const auto least = minimise(far, {0, 0}, Box<2>{.low = {0, 0}, .high = {1e9, 1e9}});
  EXPECT_THAT(least.at, ElementsAre(DoubleNear(2e6, 1e3), DoubleNear(1e-6, 1e-9)));
}

}  // namespace
}  // namespace sluice::predict
