#include "control/serving_history.h"

#include <gtest/gtest.h>

#include "control/desired_state.h"

namespace sluice::control {
namespace {

// Revisions 1 to `newest`, of which the newest serves.
StoredFunction function(int newest, ServingHistory served) {
  StoredFunction f;
  f.name.name = "f";
  for (int n = 1; n <= newest; ++n) f.revisions.push_back({f.name, n, {}, 0});
  f.newest = f.serving = newest;
  f.served = std::move(served);
  return f;
}

int before(const StoredFunction& f) {
  const auto found = served_before(f);
  return found && !found->assumed ? found->revision : 0;
}

TEST(ServingHistory, GoesBackToWhatServedNotToTheNumberBefore) {
  EXPECT_EQ(before(function(4, {1, 2, 4})), 2) << "3 was an abandoned canary, or never started";
  EXPECT_EQ(before(function(4, {1, 2})), 2) << "4 has not started yet";
  EXPECT_EQ(before(function(2, {})), 0) << "1 never started";
}

TEST(ServingHistory, DuringARolloutTheServingOneIsTheOneBefore) {
  StoredFunction f = function(4, {1, 2});
  f.serving = 2;
  EXPECT_EQ(before(f), 2);
}

TEST(ServingHistory, WhatAUserLeftIsNoMoreToGoBackTo) {
  ServingHistory served;
  for (const int n : {1, 2, 4}) served = with_serving(served, n);
  served = with_serving(back_to(served, 2), 2);
  EXPECT_EQ(served, (ServingHistory{1, 2}));
  StoredFunction f = function(4, served);
  f.newest = f.serving = 2;
  EXPECT_EQ(before(f), 1);
  EXPECT_EQ(back_to(served, 4), served) << "a revision that never served leaves all";
  EXPECT_EQ(with_serving({1, 2, 4}, 2), (ServingHistory{1, 4, 2}));
}

TEST(ServingHistory, WhatIsNoLongerKeptIsPassedOver) {
  StoredFunction f = function(4, {1, 2, 3, 4});
  std::erase_if(f.revisions, [](const Revision& r) { return r.number == 3; });
  EXPECT_EQ(before(f), 2);
}

TEST(ServingHistory, OneThatIsNotKnownIsAssumedToBeTheNumberBefore) {
  const auto assumed = served_before(function(4, {kNotKnown, 4}));
  ASSERT_TRUE(assumed);
  EXPECT_TRUE(assumed->assumed);
  EXPECT_EQ(assumed->revision, 3);
  EXPECT_EQ(before(function(4, {kNotKnown, 2, 4})), 2) << "what followed is known";
  EXPECT_FALSE(served_before(function(1, {kNotKnown, 1})));
}

TEST(ServingHistory, IsBounded) {
  ServingHistory served;
  for (int n = 1; n <= 1000; ++n) served = with_serving(served, n);
  EXPECT_EQ(served.size(), kMostServed);
  EXPECT_EQ(served.back(), 1000);
}

}  // namespace
}  // namespace sluice::control
