// Which hints in a client's page count.
#include "enforce/hints.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace sluice::node {
namespace {

constexpr Time kAttached{std::chrono::hours(1)};

uint64_t ns(Time t) {
  return static_cast<uint64_t>(t.time_since_epoch().count());
}

class HintsTest : public testing::Test {
 protected:
  Time at(double ms) const { return kAttached + from_millis(ms); }
  Time due(uint64_t word, double ms) { return hints_.hear({.due_ns = word}, at(ms)).due; }
  Nanos cycle(uint32_t iterations, Nanos cycle, double ms) {
    return hints_
        .hear({.cycle_ns = static_cast<uint64_t>(cycle.count()), .iterations = iterations}, at(ms))
        .cycle;
  }

  Hints hints_{kAttached};
};

TEST_F(HintsTest, ZerosSayNothing) {
  const Hints::Told told = hints_.hear({}, at(1));
  EXPECT_EQ(told.due, Time::max());
  EXPECT_EQ(told.cycle, Nanos(0));
}

TEST_F(HintsTest, ADueTimeHoldsUntilThereIsAnother) {
  EXPECT_EQ(due(ns(at(30)), 1), at(30));
  EXPECT_EQ(due(ns(at(30)), 40), at(30)) << "late by now, and no more than that";
  EXPECT_EQ(due(ns(at(60)), 41), at(60));
  EXPECT_EQ(due(0, 42), Time::max());
}

TEST_F(HintsTest, NobodyIsLateSinceBeforeItSaidSo) {
  EXPECT_EQ(due(1, 5), at(5));
  EXPECT_EQ(due(1, 9), at(5));
  EXPECT_EQ(due(2, 9), at(9));
}

TEST_F(HintsTest, WhatLiesTooFarAwaySaysNothing) {
  EXPECT_EQ(due(ns(at(2) + std::chrono::hours(2)), 2), Time::max());
  EXPECT_EQ(due(UINT64_MAX, 3), Time::max());
  EXPECT_EQ(due(uint64_t{1} << 63, 4), Time::max());
}

TEST_F(HintsTest, AnOpenIterationBeganAfterTheLastOneEndedAndNoLaterThanNow) {
  const auto begun = [&](uint64_t word, double ms) {
    return hints_.hear({.begun_ns = word, .begun_submitted_ns = 7}, at(ms)).begun;
  };
  EXPECT_EQ(begun(0, 1), Time::max());
  EXPECT_EQ(begun(ns(at(2)), 3), at(2));
  EXPECT_EQ(begun(1, 4), kAttached);
  EXPECT_EQ(begun(UINT64_MAX, 5), at(5));
  (void)hints_.hear({.cycle_ns = 1, .iterations = 1}, at(8));
  EXPECT_EQ(hints_.hear({.iterations = 1, .begun_ns = ns(at(3))}, at(9)).begun, at(5));
}

TEST_F(HintsTest, AnIterationIsToldOnce) {
  EXPECT_EQ(cycle(1, Millis(3), 10), Millis(3));
  EXPECT_EQ(cycle(1, Millis(3), 11), Nanos(0));
  EXPECT_EQ(cycle(5, Millis(4), 20), Millis(4)) << "of several the last";
  EXPECT_EQ(cycle(0, Millis(2), 30), Millis(2)) << "the count goes round";
}

TEST_F(HintsTest, AnIterationBeganAfterTheLastOneEnded) {
  EXPECT_EQ(cycle(1, Seconds(100), 10), Millis(10)) << "or after its process attached";
  EXPECT_EQ(cycle(1, Nanos(0), 12), Nanos(0));
  EXPECT_EQ(cycle(2, Seconds(100), 15), Millis(15)) << "the first may have ended at the start";
  EXPECT_EQ(cycle(3, Seconds(100), 20), Millis(8)) << "the second after the look at 12 ms";
}

// The sum of the accepted cycles is at most twice the time that passed: each lies between two
// polls, and at most two cycles span a moment.
TEST(HintsProperty, WhateverAPageSaysIsBounded) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Hints hints(kAttached);
    Time now = kAttached;
    Nanos cycles{0};
    HintWords words;
    for (int look = 0; look < 200; ++look) {
      const Time heard = now;
      if (random.chance(0.7)) words.due_ns = random.next() >> random.below(64);
      if (random.chance(0.2)) words.due_ns = ns(now + Micros(random.between(-100'000, 100'000)));
      if (random.chance(0.7)) words.cycle_ns = random.next() >> random.below(64);
      if (random.chance(0.7)) words.iterations = static_cast<uint32_t>(random.next());
      const Hints::Told told = hints.hear(words, now);
      if (told.due != Time::max()) {
        ASSERT_GE(told.due, kAttached);
        ASSERT_LE(told.due, heard + std::chrono::hours(1));
      }
      ASSERT_GE(told.cycle, Nanos(0));
      cycles += told.cycle;
      ASSERT_LE(cycles, 2 * (now - kAttached));
      now += Micros(random.between(0, 30'000));
    }
  }
}

}  // namespace
}  // namespace sluice::node
