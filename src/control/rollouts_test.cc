#include "control/rollouts.h"

#include <gtest/gtest.h>

namespace sluice::control {
namespace {

constexpr Time kStart{std::chrono::hours(1)};

// Revision 2 is to take over from 1.
FunctionState rolling() {
  FunctionState f;
  f.stored.name.name = "f";
  for (const int number : {1, 2}) f.stored.revisions.push_back({f.stored.name, number, {}, 0});
  f.stored.newest = 2;
  f.stored.serving = 1;
  return f;
}

TEST(Rollouts, TheNewestTakesOverWhenAllOfItsInstancesAreReady) {
  Rollouts rollouts({.patience = Seconds(30)});
  FunctionState f = rolling();
  f.present.newest_starts = true;
  EXPECT_FALSE(rollouts.takes_over(f, kStart));
  f.present.newest_ready = true;
  EXPECT_FALSE(rollouts.takes_over(f, kStart)) << "others still start";
  f.present.newest_starts = false;
  EXPECT_TRUE(rollouts.takes_over(f, kStart + Seconds(1)));
}

TEST(Rollouts, OneThatIsReadyIsEnoughWhenTheOthersTakeLong) {
  Rollouts rollouts({.patience = Seconds(30)});
  FunctionState f = rolling();
  f.present.newest_ready = f.present.newest_starts = true;
  EXPECT_FALSE(rollouts.takes_over(f, kStart));
  EXPECT_FALSE(rollouts.takes_over(f, kStart + Seconds(29)));
  EXPECT_TRUE(rollouts.takes_over(f, kStart + Seconds(30)));
}

TEST(Rollouts, ACanaryLeavesTheOldOneServing) {
  Rollouts rollouts({});
  FunctionState f = rolling();
  f.present.newest_ready = true;
  f.stored.revisions[1].spec.inference().canary_traffic_percent = 10;
  EXPECT_FALSE(rollouts.takes_over(f, kStart));
}

TEST(Rollouts, ARevisionThatCannotStartIsGivenUpUntilThereIsAnother) {
  Rollouts rollouts({.tries = 3});
  const StoredFunction f = rolling().stored;
  EXPECT_FALSE(rollouts.give_up(f, 2, 2, "no method"));
  EXPECT_FALSE(rollouts.give_up(f, 1, 9, "no method")) << "the serving one";
  EXPECT_EQ(rollouts.wanted(f), 2);
  EXPECT_TRUE(rollouts.give_up(f, 2, 3, "no method"));
  EXPECT_EQ(rollouts.wanted(f), 1);
  EXPECT_NE(rollouts.failed(f.name).find("in 3 tries (no method); revision 1 goes on"),
            std::string::npos);
  rollouts.forget(f.name);
  EXPECT_EQ(rollouts.wanted(f), 2);
}

}  // namespace
}  // namespace sluice::control
