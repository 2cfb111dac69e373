#include "arbiters/account.h"

#include <gtest/gtest.h>

namespace sluice::policy {
namespace {

constexpr Time kStart{std::chrono::hours(1)};  // at a window's end
constexpr ClientId kId = 7;

// One client at 20 % of windows of 20 ms: 4 ms each. Times are milliseconds since the start.
class AccountTest : public testing::Test {
 protected:
  AccountTest() {
    accounts_.put({.id = kId, .sm = {1000}, .quota = {{200}, {200}}}, kStart);
    accounts_.want(kId, true, kStart);
  }

  Account& at(double ms) {
    accounts_.advance(kStart + from_millis(ms));
    return account();
  }
  Account& account() { return *accounts_.find(kId); }
  void grant(double ms, double budget_ms) {
    Permits permits;
    accounts_.grant(at(ms), from_millis(budget_ms), Time::max(), permits);
  }
  void report(double at_ms, double busy_ms, double seen_until_ms) {
    accounts_.charge(kId, from_millis(busy_ms), kStart + from_millis(seen_until_ms),
                     kStart + from_millis(at_ms));
  }
  double room(double ms) { return millis(at(ms).room_left(kStart + from_millis(ms))); }

  Accounts accounts_{ArbiterConfig{}};
};

TEST_F(AccountTest, UnusedRoomIsLostAtTheWindowsEnd) {
  EXPECT_EQ(room(0), 4);
  EXPECT_NEAR(room(20), 4, 0.051);  // except an amount too small to grant
  EXPECT_NEAR(room(2000), 4, 0.051);
}

TEST_F(AccountTest, SilenceCountsAsUseUntilAReportSaysOtherwise) {
  grant(0, 4);
  EXPECT_EQ(room(1), 3);
  EXPECT_EQ(room(6), 0);  // no more than it was granted
  report(6, 0, 6);        // "nothing was used until 6"
  EXPECT_EQ(room(6), 4);
}

TEST_F(AccountTest, AClientThatNeverReportsPaysForItsWholeGrants) {
  for (double window = 0; window < 1000; window += 20) {
    grant(window, 4);
    accounts_.drained(kId, kStart + from_millis(window + 10));
    EXPECT_EQ(room(window + 19), 0) << window;
  }
}

TEST_F(AccountTest, AReportAcrossTheWindowsEndPaysInTheWindowOfItsUse) {
  grant(0, 10);
  report(16, 0, 16);
  report(20.5, 4.5, 20.5);  // all but half a millisecond in the old window
  EXPECT_EQ(room(20.5), 4 - 0.5);
}

// The client was kept from its permit until the window's end, and then came before its host.
TEST_F(AccountTest, WhatWasNotUsedBeforeTheWindowsEndPaysForNothingBehindIt) {
  grant(0, 4);
  report(1, 1, 1);
  report(23, 2, 23);
  EXPECT_NEAR(room(23), 4 - 2, 0.051);
}

TEST_F(AccountTest, NorWhenPermitsCameSinceThenWithoutAReport) {
  grant(0, 4);
  report(1, 1, 1);
  grant(20.5, 4);
  grant(24, 4);
  report(24, 3.5, 23.5);
  EXPECT_NEAR(room(24), 4 - 3.5, 0.051);
}

TEST_F(AccountTest, OfAReportAcrossTheWindowsEndAllThatCanLieBehindItDoes) {
  grant(0, 4);
  report(21, 3, 21);
  EXPECT_NEAR(room(21), 4 - 1, 0.051);
}

TEST_F(AccountTest, LateReportsAreSetOffAgainstWhatWasAssumed) {
  grant(0, 4);
  accounts_.drained(kId, kStart + from_millis(5));
  grant(20, 4);
  report(21, 1, 2);  // late, of the first grant: already charged
  report(22, 2, 5);
  EXPECT_NEAR(room(22), 4 - 2, 0.051);  // the second grant, unseen since 20
  report(24, 4, 24);
  EXPECT_NEAR(room(24), 0, 0.051);
}

TEST_F(AccountTest, ReportsOutOfOrderCountOnce) {
  grant(0, 4);
  report(9, 1, 4);
  report(9, 2, 2);
  EXPECT_EQ(account().used, Millis(3));
  EXPECT_EQ(room(9), 4 - 3 - 1);  // unseen since 4
}

TEST_F(AccountTest, OverrunIsDebtCarriedAndBounded) {
  grant(0, 4);
  report(10, 10, 10);
  EXPECT_EQ(account().hold, Account::Hold::kDraining);
  EXPECT_EQ(room(10), -6);
  EXPECT_EQ(room(20), -2);
  EXPECT_EQ(room(40), 2);
  report(41, 1e6, 41);
  EXPECT_EQ(room(41), -200);  // drain_bound
}

TEST_F(AccountTest, OverrunThatRobsOthersIsPaidFromTheRequest) {
  grant(0, 4);
  account().others_wait = true;
  report(10, 10, 10);
  EXPECT_EQ(account().owed, Millis(-6));
}

TEST_F(AccountTest, WhatItWasRobbedOfOutlivesTheWindow) {
  accounts_.block(at(5), kStart + Millis(8));
  EXPECT_NEAR(room(20), 4 + 3, 0.051);
  EXPECT_NEAR(millis(account().owed), 4 + 3, 0.051);
  accounts_.want(kId, false, kStart + Millis(21));
  EXPECT_NEAR(room(40), 4, 0.051);  // a client without work is entitled to nothing
}

TEST_F(AccountTest, WhoLeavesTheRoomIdleIsRobbedOfNothing) {
  accounts_.block(at(5), kStart + Millis(8));
  grant(8, 10);
  report(10, 0, 10);
  accounts_.drained(kId, kStart + Millis(10));
  EXPECT_EQ(account().deprived, Millis(1));
}

TEST_F(AccountTest, AChangedQuotaCountsForThisWindow) {
  report(1, 1, 1);
  accounts_.put({.id = kId, .sm = {1000}, .quota = {{200}, {800}}}, kStart + Millis(2));
  EXPECT_EQ(room(2), 15);
  report(12, 10, 12);
  accounts_.put({.id = kId, .sm = {1000}, .quota = {{100}, {100}}}, kStart + Millis(12));
  EXPECT_EQ(room(12), 0);  // use that was allowed makes no debt
}

TEST_F(AccountTest, TheDrainBoundFreesTheRoomOfAClientThatNeverDrains) {
  grant(0, 4);
  Permits permits;
  accounts_.revoke(at(3), permits);
  EXPECT_TRUE(at(202).holds());
  EXPECT_FALSE(at(203).holds());
}

TEST_F(AccountTest, TheClockNeverGoesBack) {
  EXPECT_EQ(accounts_.advance(kStart + Millis(30)), kStart + Millis(30));
  EXPECT_EQ(accounts_.advance(kStart + Millis(10)), kStart + Millis(30));
}

TEST_F(AccountTest, SharesThatNoDeviceHasAreRefusedByName) {
  const auto message = [](int sm, int request, int limit) {
    return check_shares({.id = 3, .sm = {sm}, .quota = {{request}, {limit}}}).error().message;
  };
  EXPECT_EQ(message(0, 1, 1), "client 3: sm: 0 ‰ is not within 1 … 1000 ‰");
  EXPECT_EQ(message(1, 600, 500), "client 3: request: 600 ‰ is not within 0 … its limit of 500 ‰");
  EXPECT_EQ(message(1, 1, 1001), "client 3: limit: 1001 ‰ is not within 1 … 1000 ‰");
}

}  // namespace
}  // namespace sluice::policy
