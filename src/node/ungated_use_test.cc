#include "node/ungated_use.h"

#include <gtest/gtest.h>

namespace sluice::node {
namespace {

class UngatedUseTest : public testing::Test {
 protected:
  static Time at(int ms) { return Time(Millis(ms)); }
  // A stretch of half a second that has just ended, in which process 7 worked for so long.
  static std::map<pid_t, DeviceUse> shows(int until_ms, int busy_ms) {
    return {{7, {at(until_ms - 500), at(until_ms), Millis(busy_ms), Millis(5)}}};
  }
  Nanos take(const std::map<pid_t, DeviceUse>& account, int now_ms,
             const std::set<pid_t>& attached = {}) {
    Nanos sum{0};
    for (const UngatedUse::Use& use : ungated_.take(account, attached, at(now_ms))) {
      EXPECT_EQ(use.pid, 7);
      sum += use.busy;
    }
    return sum;
  }

  UngatedUse ungated_;
};

TEST_F(UngatedUseTest, AStretchCountsOnceWhereTheProcessHadNoPagesBefore) {
  EXPECT_EQ(take(shows(1000, 400), 1100), Nanos(0)) << "it may have had pages in it";
  EXPECT_EQ(take(shows(1500, 400), 1600), Nanos(0));
  EXPECT_EQ(take(shows(2000, 300), 2100), Millis(300));
  EXPECT_EQ(take(shows(2000, 300), 2350), Nanos(0)) << "the same";
  EXPECT_EQ(take(shows(2500, 200), 2600), Millis(200));
}

TEST_F(UngatedUseTest, WhoHasPagesIsItsMetersToCharge) {
  take(shows(1000, 400), 1100);
  take(shows(1500, 400), 1600);
  EXPECT_EQ(take(shows(2000, 400), 2100, {7}), Nanos(0));
  EXPECT_EQ(take(shows(2500, 400), 2600), Nanos(0)) << "it had them when that began";
  EXPECT_EQ(take(shows(3000, 400), 3100), Nanos(0));
  EXPECT_EQ(take(shows(3500, 400), 3600), Millis(400));
}

TEST_F(UngatedUseTest, WhatTheResolutionExplainsIsNothing) {
  take(shows(1000, 400), 1100);
  EXPECT_EQ(take(shows(2000, 5), 2100), Nanos(0));
  EXPECT_EQ(take(shows(2500, 10), 2600), Millis(10));
}

TEST_F(UngatedUseTest, WhoIsForgottenByTheAccountBeginsAnew) {
  take(shows(1000, 400), 1100);
  take({}, 1600);
  EXPECT_EQ(take(shows(2000, 400), 2100), Nanos(0));
}

}  // namespace
}  // namespace sluice::node
