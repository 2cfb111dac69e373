#include "arbiters/cost_audit.h"

#include <gtest/gtest.h>

namespace sluice::policy {
namespace {

constexpr Time kStart{std::chrono::hours(1)};
constexpr Nanos kUnit = Micros(50);

class CostAuditTest : public testing::Test {
 protected:
  // A turn of its own of 10 ms, in which it was at work all the time and reported that part of it.
  bool turn(double reported, double busy = 1, Nanos longest = kUnit) {
    const Nanos turn = Millis(10);
    audit.measure({.passed = turn,
                   .busy = from_seconds(seconds(turn) * busy),
                   .finished = from_seconds(seconds(turn) * busy * reported)});
    return audit.complete(longest);
  }
  void examine(double reported, double busy = 1, double least = 1) {
    while (!turn(reported, busy)) {
    }
    audit.judge(least, now);
  }

  Time now = kStart;
  CostAudit audit{kStart};
};

TEST_F(CostAuditTest, IsDueAfterASecondAndThenSeldom) {
  EXPECT_FALSE(audit.due(now + Millis(999)));
  Nanos trusted = CostAudit::kTrustLeast;
  for (now += Seconds(1); trusted <= CostAudit::kTrustMost; trusted *= 2) {
    EXPECT_TRUE(audit.due(now));
    EXPECT_FALSE(turn(1));
    EXPECT_TRUE(turn(1)) << "20 ms";
    audit.judge(1, now);
    EXPECT_FALSE(audit.due(now + trusted - Millis(1)));
    now += trusted;
  }
}

TEST_F(CostAuditTest, AMisreportingClientPaysWhatItUsesForGood) {
  examine(0.5);
  examine(0.5);
  EXPECT_TRUE(audit.misreports());
  EXPECT_NEAR(audit.factor(), 2, 0.05);
  now += Seconds(100);
  EXPECT_TRUE(audit.due(now));
  for (int i = 0; i < 20; ++i) examine(0.1);
  EXPECT_NEAR(audit.factor(), 10, 0.1);
  for (int i = 0; i < 20; ++i) examine(1);
  EXPECT_TRUE(audit.misreports());
  EXPECT_NEAR(audit.factor(), 1, 0.05);
}

// In its first examination units ended whose cost it did not know when they began.
TEST_F(CostAuditTest, AClientIsJudgedByASecondExaminationRightAfterTheFirst) {
  examine(0.001);
  EXPECT_FALSE(audit.misreports());
  EXPECT_TRUE(audit.due(now));
  examine(1);
  EXPECT_FALSE(audit.misreports());
  EXPECT_FALSE(audit.due(now));
  examine(0.001);
  EXPECT_FALSE(audit.misreports()) << "not in a row";
  examine(0.5);
  EXPECT_TRUE(audit.misreports());
  EXPECT_NEAR(audit.factor(), 2, 0.05) << "by the second";
}

TEST_F(CostAuditTest, ACostThatIsALittleLessIsNone) {
  examine(0.93);
  examine(0.93);
  EXPECT_FALSE(audit.misreports());
  EXPECT_EQ(audit.factor(), 1);
}

// Its host was the slower one.
TEST_F(CostAuditTest, AClientThatWasSeldomAtWorkSaysNothing) {
  examine(0.2, 0.5);
  examine(0.2, 0.5);
  EXPECT_FALSE(audit.misreports());
  EXPECT_EQ(audit.ratio(), 0);
}

TEST_F(CostAuditTest, OnASlowerDeviceEveryClientsUnitsTakeLonger) {
  examine(1 / 1.3, 1, 1.3);
  EXPECT_FALSE(audit.misreports());
  for (int i = 0; i < 2; ++i) examine(1 / 2.6, 1, 1.3);
  EXPECT_TRUE(audit.misreports());
  EXPECT_NEAR(audit.factor(), 2, 0.05);
}

TEST_F(CostAuditTest, AClientFoundAloneIsNotExamined) {
  for (int i = 0; i < 100; ++i, now += Millis(100))
    audit.glance({Millis(5), Millis(5), Millis(5)}, kUnit, 1, now);
  EXPECT_FALSE(audit.due(now));
}

TEST_F(CostAuditTest, AClientFoundWrongByChanceIsExaminedBeforeItIsJudged) {
  for (int i = 0; i < 4; ++i) audit.glance({Millis(5), Millis(5), Millis(1)}, kUnit, 1, now);
  EXPECT_TRUE(audit.due(now));
  EXPECT_FALSE(audit.misreports());
  examine(1);
  EXPECT_FALSE(audit.due(now));
}

// Of long units some end just before the audit sees the client alone, others just after.
TEST_F(CostAuditTest, ChanceNeedsSeveralOfTheLongestUnits) {
  for (int i = 0; i < 99; ++i) audit.glance({Millis(2), Millis(2), Nanos(0)}, Millis(20), 1, now);
  EXPECT_FALSE(audit.due(now));
}

}  // namespace
}  // namespace sluice::policy
