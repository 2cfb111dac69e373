// Which stretches of work are iterations, and which of them compare with each other.
#include "hook/iterations.h"

#include <gtest/gtest.h>

namespace sluice::hook {
namespace {

constexpr uint64_t kUs = 1000, kMs = 1'000'000, kS = 1'000'000'000;

class IterationsTest : public testing::Test {
 protected:
  // A stretch that carries so much work, and takes a little longer.
  bool is_one(uint64_t work_ns, uint64_t at_ns) {
    return iterations_.is_one(work_ns + 50 * kUs, work_ns, at_ns);
  }
  Iterations iterations_{};
};

TEST_F(IterationsTest, WaitsThatAreAlikeAllEndOne) {
  for (int i = 1; i < 100; ++i) EXPECT_TRUE(is_one(8 * kMs, static_cast<uint64_t>(i) * 10 * kMs));
}

// A training step: the step itself, then `.item()` twice.
TEST_F(IterationsTest, ALookAtANumberInBetweenEndsNone) {
  for (uint64_t step = 1; step < 300; ++step) {
    EXPECT_TRUE(is_one(8 * kMs, step * 10 * kMs));
    EXPECT_FALSE(is_one(5 * kUs, step * 10 * kMs + kMs));
    EXPECT_FALSE(is_one(5 * kUs, step * 10 * kMs + 2 * kMs));
  }
}

TEST_F(IterationsTest, WhatIsForgottenComparesNoLonger) {
  EXPECT_TRUE(is_one(100 * kMs, kS));
  EXPECT_FALSE(is_one(10 * kMs, kS + 500 * kMs));
  EXPECT_FALSE(is_one(10 * kMs, 2 * kS + 1)) << "remembered for a second at least";
  EXPECT_TRUE(is_one(10 * kMs, 3 * kS + 2)) << "and two at most";
  EXPECT_TRUE(is_one(kMs, 30 * kS)) << "or until it has rested for so long";
}

TEST_F(IterationsTest, AStretchOfASecondAndOneWithoutWorkAreNone) {
  EXPECT_FALSE(iterations_.is_one(Iterations::kUnknownNs, kMs, kS));
  EXPECT_FALSE(iterations_.is_one(kMs, 0, kS));
  EXPECT_TRUE(iterations_.is_one(Iterations::kUnknownNs - 1, kMs, kS));
}

TEST(IterationKinds, AreThoseOfAboutAsMuchWork) {
  EXPECT_EQ(Iterations::kind_of(10 * kMs), Iterations::kind_of(10 * kMs + 100 * kUs));
  uint32_t before = Iterations::kind_of(1);
  for (uint64_t work = 2; work < 1ull << 62; work += work / 8 + 1) {
    const uint32_t kind = Iterations::kind_of(work);
    EXPECT_GE(kind, before);
    EXPECT_GT(Iterations::kind_of(work + work / 4 + 1), kind) << work;
    before = kind;
  }
}

}  // namespace
}  // namespace sluice::hook
