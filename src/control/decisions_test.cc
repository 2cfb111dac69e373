#include "control/decisions.h"

#include <gtest/gtest.h>

namespace sluice::control {
namespace {

const FunctionName kF{.name = "f"};
constexpr UnixMillis kStart = 1'000'000'000'000;

Decision unmet(UnixMillis at) {
  return {.at = at, .function = kF, .action = "unmet", .reason = {"no-room", "No room.", {}}};
}

class DecisionsTest : public testing::Test {
 protected:
  DecisionsTest() { decisions.know(kF, std::nullopt); }
  // Returns how many are recorded if it comes to nothing every second of [from, to).
  size_t each_second(int from, int to, Nanos least = Nanos(0)) {
    for (int s = from; s < to; ++s)
      decisions.record_vain(unmet(kStart + s * 1000), least, Seconds(3));
    return decisions.take().size();
  }
  Decisions decisions;
};

TEST_F(DecisionsTest, OneThatComesToNothingIsRecordedWhenItBeginsAndEveryTenMinutes) {
  EXPECT_EQ(each_second(0, 600), 1u);
  decisions.record_vain(unmet(kStart + 600'000), Nanos(0), Seconds(3));
  const auto again = decisions.take();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_NE(again[0].reason.text.find("decided 599 times in the last 600 s"), std::string::npos);
  EXPECT_EQ(each_second(601, 609), 0u);
  EXPECT_EQ(each_second(640, 645), 1u) << "after a pause it begins anew";
}

TEST_F(DecisionsTest, OneThatDoesNotLastIsNotRecorded) {
  EXPECT_EQ(each_second(0, 4, Seconds(4)), 0u);
  EXPECT_EQ(each_second(4, 5, Seconds(4)), 1u);
  EXPECT_EQ(each_second(100, 103, Seconds(4)), 0u);
}

TEST_F(DecisionsTest, TheLastOneOfAFunctionIsKnownWithItsNumber) {
  EXPECT_EQ(decisions.last(kF, kStart), nullptr);
  decisions.record({.function = kF, .action = "start"});
  decisions.record({.function = {.name = "unknown"}, .action = "lost"});
  auto taken = decisions.take();
  taken[0].number = 7;
  decisions.written(taken);
  EXPECT_EQ(decisions.last(kF, kStart)->number, 7);
  EXPECT_EQ(decisions.last({.name = "unknown"}, kStart), nullptr);
  decisions.forget(kF);
  EXPECT_EQ(decisions.last(kF, kStart), nullptr);
}

// A worker that could not be started, and later was not needed, is not the news of a job that
// trains.
TEST_F(DecisionsTest, OneThatCameToNothingIsTheLastOneOnlyWhileItIsDecided) {
  decisions.record({.at = kStart, .function = kF, .action = "start"});
  each_second(1, 3);
  EXPECT_EQ(decisions.last(kF, kStart + 4'000)->action, "unmet");
  EXPECT_EQ(decisions.last(kF, kStart + 60'000)->action, "start");
  EXPECT_EQ(each_second(60, 62), 1u);
  EXPECT_EQ(decisions.last(kF, kStart + 62'000)->action, "unmet");
}

TEST_F(DecisionsTest, WhatWasNotWrittenIsTakenAgainInOrderUpToABound) {
  for (int n = 0; n < 1200; ++n) decisions.record({.at = n, .function = kF, .action = "resize"});
  auto taken = decisions.take();
  decisions.record({.at = 1200, .function = kF, .action = "resize"});
  decisions.not_written(std::move(taken));
  taken = decisions.take();
  ASSERT_EQ(taken.size(), 1000u);
  EXPECT_EQ(taken.front().at, 201);
  EXPECT_EQ(taken.back().at, 1200);
}

}  // namespace
}  // namespace sluice::control
