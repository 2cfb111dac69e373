#include "enforce/quota_writes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace sluice::node {
namespace {

constexpr Nanos kPeriod = Millis(500);
constexpr Nanos kEarns = QuotaWrites::kPeriodsPerWrite * kPeriod;
constexpr Time kStart{Seconds(1000)};

TEST(QuotaWrites, AChangeNowAndThenIsWrittenAtOnce) {
  QuotaWrites quota(kPeriod);
  EXPECT_EQ(quota.ask(100, kStart), 100);
  EXPECT_EQ(quota.ask(60, kStart + Seconds(1)), 60);
  EXPECT_EQ(quota.ask(100, kStart + Seconds(2)), 100);
}

TEST(QuotaWrites, WhatIsWrittenAlreadyIsNotWrittenAgain) {
  QuotaWrites quota(kPeriod);
  EXPECT_EQ(quota.ask(100, kStart), 100);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(quota.ask(100, kStart + i * kPeriod), std::nullopt);
}

TEST(QuotaWrites, ACutWaitsUntilItIsPaidForAndTheNewestCounts) {
  QuotaWrites quota(kPeriod);
  quota.ask(100, kStart);
  EXPECT_EQ(quota.ask(200, kStart), 200);
  EXPECT_EQ(quota.ask(50, kStart), std::nullopt);
  EXPECT_EQ(quota.ask(70, kStart), std::nullopt);
  EXPECT_EQ(quota.poll(kStart + kEarns - Millis(1)), std::nullopt);
  EXPECT_EQ(quota.poll(kStart + kEarns), 70);
  EXPECT_EQ(quota.poll(kStart + 10 * kEarns), std::nullopt);
}

TEST(QuotaWrites, ARaiseNeverWaits) {
  QuotaWrites quota(kPeriod);
  double written = *quota.ask(10, kStart);
  for (int asked = 11; asked <= 1000; ++asked) {
    if (const auto now = quota.ask(asked, kStart)) written = *now;
    ASSERT_GE(written, asked);
    ASSERT_LE(written, asked * QuotaWrites::kHeadroom);
  }
}

// What a storm gains: each write gives at most two quotas of a period.
TEST(QuotaWrites, AStormGainsNoMoreThanTheBound) {
  const uint64_t seed = 5;
  SCOPED_TRACE(seed);
  Random random(seed);
  constexpr Nanos kStorm = Seconds(600), kStep = Millis(10);
  for (const double most : {71.0, 80.0, 1000.0}) {
    QuotaWrites quota(kPeriod);
    double held = *quota.ask(70, kStart), used = 0;
    for (Nanos t{0}; t < kStorm; t += kStep) {
      const double asked = 70 + (most - 70) * static_cast<double>(random.below(2));
      if (const auto now = quota.ask(asked, kStart + t)) {
        held = *now;
        used += 2 * held * seconds(kPeriod);
      }
      used += held * seconds(kStep);
    }
    const double bound = most * (1 + 2.0 / QuotaWrites::kPeriodsPerWrite);
    const double once = QuotaWrites::kMost * 2 * most * seconds(kPeriod);
    EXPECT_LE(used, bound * seconds(kStorm) + once) << most;
  }
}

}  // namespace
}  // namespace sluice::node
