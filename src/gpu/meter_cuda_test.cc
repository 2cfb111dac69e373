#include "gpu/meter_cuda.h"

#include <gmock/gmock.h>

#include "tests/support/device_reports.h"

namespace sluice::node {
namespace {

constexpr Nanos kHeld = Millis(4), kUsed = Millis(3), kDrain = Millis(2);
constexpr int kSecond = 50;                            // windows
constexpr Nanos kRounded = Millis(10) + Micros(10);    // in the account of them
constexpr Nanos kOfDrain = kDrain - CudaMeter::kNews;  // charged to a confirmed client
constexpr Nanos kLease = kSecond * (kHeld + kDrain);

MATCHER_P2(IsFrom, least, within, "") {
  return arg >= least - Micros(10) && arg <= least + within + Micros(10);
}

// A client that holds its permit for the first part of each window of 20 ms, and drains in 2 ms.
class CudaMeterTest : public testing::Test {
 protected:
  CudaMeterTest() { add(kProcess); }
  void add(const ProcessIdentity& process) {
    meter.add_process(process);
    totals[process.pid] = Nanos(0);
  }

  // These return what was charged. In a window, and in fifty of them, which the account then shows.
  Nanos window(Nanos used, Nanos used_by_other = {}) {
    meter.granted(at(now));
    Nanos charged = step(Nanos(1), {}, {}, false);
    charged += step(kHeld - Nanos(1), used, used_by_other, false);
    const Nanos revoked = now;
    meter.revoked(at(now));
    charged += step(kDrain);
    while (!meter.drained(at(now), at(revoked), true)) charged += step(Micros(100));
    drain = now - revoked;
    return charged + step(std::max(Millis(16) - drain, Nanos(0)));
  }
  Nanos second(Nanos used, Nanos accounted, Nanos used_by_other = {}, Nanos accounted_other = {}) {
    Nanos charged{0};
    const Nanos began = now;
    for (int i = 0; i < kSecond; ++i) charged += window(used, used_by_other);
    account->tell(kProcess.pid, began, now, accounted);
    if (accounted_other > Nanos(0)) account->tell(kOther.pid, began, now, accounted_other);
    return charged + step(UsageAudit::kSampleEvery);
  }
  Nanos step(Nanos by, Nanos used = {}, Nanos used_by_other = {}, bool resting = true) {
    now += by;
    report(kProcess, used, Nanos(0));
    if (totals.contains(kOther.pid)) report(kOther, used_by_other, Nanos(0));
    return poll(resting);
  }
  void report(const ProcessIdentity& process, Nanos used, Nanos in_flight) {
    totals[process.pid] += used;
    if (!silent) meter.report(process, words(totals[process.pid], now, in_flight), at(now));
  }
  Nanos poll(bool resting) {
    const auto reading = meter.poll(at(now), resting);
    return reading ? reading->busy : Nanos(0);
  }
  void be_confirmed() {
    second(kUsed, kSecond * kUsed);
    ASSERT_TRUE(meter.confirmed());
  }

  const std::shared_ptr<ScriptedAccount> account = std::make_shared<ScriptedAccount>();
  const std::shared_ptr<DeviceTurns> turns = std::make_shared<DeviceTurns>();
  CudaMeter meter{account, kStart, turns};
  std::map<pid_t, Nanos> totals;  // of each process's reports
  Nanos now{0}, drain{0};
  bool silent = false;
};

// --- lease and report ----------------------------------------------------------------------------

TEST_F(CudaMeterTest, AClientPaysItsLeaseUntilAnAuditConfirmsItsReport) {
  EXPECT_THAT(second({}, {}), IsFrom(kLease, Nanos(0)));
  EXPECT_FALSE(meter.confirmed()) << "an idle device confirms nothing";
  EXPECT_THAT(second(Micros(200), kSecond * Micros(200)), IsFrom(kLease, Nanos(0)));
  EXPECT_TRUE(meter.confirmed());
  EXPECT_EQ(second(kUsed, kSecond * kUsed), kSecond * (kUsed + kOfDrain));
  for (int i = 0; i < 30 * kSecond; ++i) window(kUsed);
  EXPECT_FALSE(meter.confirmed()) << "the account tells nothing";
}
TEST_F(CudaMeterTest, AReportBeyondTheLeaseIsCharged) {
  EXPECT_GE(second(Millis(9), kSecond * Millis(9)), kSecond * Millis(9));
}
TEST_F(CudaMeterTest, ASilentClientPaysItsLease) {
  silent = true;
  for (int s = 0; s < 3; ++s) EXPECT_THAT(second(kUsed, kSecond * kUsed), IsFrom(kLease, Nanos(0)));
}
// As one of MPS: while it reports that it rests, the account would not show what it does.
TEST_F(CudaMeterTest, AClientThatTheAccountDoesNotKnowPaysItsLeaseWhateverItReports) {
  step(Millis(1), Micros(1));
  meter.granted(at(now));
  EXPECT_EQ(step(kHeld), kHeld - CudaMeter::kWakeUp);
  EXPECT_EQ(step(kHeld, {}, {}, false) + step(kHeld, {}, {}, false), 2 * kHeld);
}

// --- audits --------------------------------------------------------------------------------------

TEST_F(CudaMeterTest, AMisreportingClientPaysForItsUseAndThenItsLeasesForGood) {
  be_confirmed();
  EXPECT_GE(second({}, Millis(900)), Millis(900) - kRounded);
  EXPECT_TRUE(meter.misreports());
  for (int s = 0; s < 100; ++s)
    EXPECT_THAT(second(kUsed, kSecond * kUsed), IsFrom(kLease, Nanos(0)));
  EXPECT_GE(second({}, Millis(900)), Millis(900) - kRounded) << "beyond its lease";
}
TEST_F(CudaMeterTest, UseThatIsNotReportedAddsUpAndWhatIsRoundedDoesNot) {
  be_confirmed();
  for (int s = 0; s < 100; ++s) second(kUsed, kSecond * kUsed + Millis(9));
  EXPECT_TRUE(meter.confirmed());
  const Nanos used = kSecond * (kUsed + kOfDrain) + Millis(100);
  Nanos charged{0};
  int s = 0;
  for (; s < 10 && !meter.misreports(); ++s) charged += second(kUsed, used);
  EXPECT_EQ(s, CudaMeter::kMargin / (Millis(100) - kRounded) + 1);
  EXPECT_GE(charged, s * (used - kRounded));
}
// Both queue more than runs under their permits, and let the rest run in others'.
TEST_F(CudaMeterTest, AClientKeepsTheDeviceForAsLongAsItsUnreportedWorkRunsOn) {
  for (const bool reports_nothing : {true, false}) {
    silent = reports_nothing;
    for (int s = 0; s < 3; ++s) second({}, kSecond * (kHeld + Millis(12)));
    EXPECT_THAT(drain, IsFrom(Millis(12), Micros(200)));
    for (int s = 0; s < 3; ++s) second({}, kSecond * kHeld);
    EXPECT_EQ(drain, kDrain);
  }
}
// The account of an H200 told one of eight processes in equal turns 95 % of the time.
TEST_F(CudaMeterTest, AnAccountOfTurnsWithOthersSaysNothingOfOneOfThem) {
  const int other = 0;
  const auto second_of_turns = [&](Nanos accounted) {
    turns->begin(&other, at(now + Millis(500)));
    return second(kUsed, accounted);
  };
  be_confirmed();
  for (int s = 0; s < 6; ++s) second_of_turns(Millis(950));
  EXPECT_FALSE(meter.misreports());
  for (int s = 0; s < 30; ++s) second_of_turns(kSecond * kUsed);
  EXPECT_FALSE(meter.confirmed());
  EXPECT_THAT(second_of_turns({}), IsFrom(kLease, Nanos(0)));
  for (int s = 0; s < 3; ++s) second(kUsed, kSecond * kUsed);
  EXPECT_TRUE(meter.confirmed()) << "alone again";
}
// As an exec of a program that has used the device: to the account it is the same process.
TEST_F(CudaMeterTest, AProcessThatAttachesAgainIsAuditedAsOne) {
  const auto second_of_many = [&](Nanos used, Nanos accounted) {
    Nanos charged{0};
    for (int i = 0; i < kSecond; ++i) {
      meter.remove_process(kProcess);
      add(kProcess);
      charged += window(used);
    }
    account->tell(kProcess.pid, now - Seconds(1), now, accounted);
    return charged + step(UsageAudit::kSampleEvery);
  };
  be_confirmed();
  for (int s = 0; s < 20; ++s) second_of_many(kUsed, kSecond * kUsed);
  EXPECT_TRUE(meter.confirmed());
  EXPECT_GE(second_of_many({}, Millis(900)), Millis(900) - kRounded);
  EXPECT_TRUE(meter.misreports());
}
TEST_F(CudaMeterTest, AProcessThatHasLeftIsAuditedForWhatItDidBefore) {
  be_confirmed();
  Nanos charged{0};
  for (int i = 0; i < kSecond; ++i) charged += window({});
  meter.remove_process(kProcess);
  const Nanos left = now;
  account->tell(kProcess.pid, left, now += Seconds(1), Seconds(1));
  EXPECT_EQ(poll(true), Nanos(0));
  account->tell(kProcess.pid, left - Seconds(1), left + Millis(1), Millis(900));
  now += Seconds(1);
  EXPECT_GE(charged + poll(true), Millis(900) - kRounded);
}
TEST_F(CudaMeterTest, UseByAProcessWithoutPagesIsCharged) {
  const auto second_of_other = [&] {
    account->tell(kOther.pid, now, now + Seconds(1), Millis(800));
    for (int i = 0; i < 5; ++i) {
      meter.watch(kOther.pid, at(now));
      now += Millis(220);
      poll(true);
    }
    return meter.ungated();
  };
  EXPECT_EQ(second_of_other(), Millis(790));
  EXPECT_EQ(second_of_other(), 2 * Millis(790));
  step(Millis(1));
  meter.add_process(kOther);
  now -= Millis(1);
  EXPECT_EQ(second_of_other(), 2 * Millis(790)) << "it was not attached from the beginning";
}

// --- work in flight ------------------------------------------------------------------------------

// With 10 ms in its queue, which run on and are charged as they do.
TEST_F(CudaMeterTest, AStoppedClientHasTheDeviceUntilItsWorkMustHaveRun) {
  be_confirmed();
  for (const bool killed : {false, true}) {
    meter.granted(at(now));
    now += Millis(1);
    report(kProcess, {}, Millis(10));
    EXPECT_EQ(poll(false), Nanos(0));
    if (killed) meter.remove_process(kProcess);
    meter.revoked(at(now));
    const Time revoked = at(now);
    now += Millis(5);
    EXPECT_EQ(poll(false), Millis(5));
    EXPECT_FALSE(meter.drained(at(now), revoked, false));
    now += Millis(20);
    EXPECT_EQ(poll(false), Millis(20) - CudaMeter::kNews) << "it kept the device";
    EXPECT_TRUE(meter.drained(at(now), revoked, false));
    step(Millis(1), Millis(10));
  }
}
// 10 ms were expected, of which 1 ms ran.
TEST_F(CudaMeterTest, WorkThatWasExpectedAndDidNotRunIsSetOff) {
  be_confirmed();
  meter.granted(at(now));
  now += Micros(1);
  report(kProcess, {}, Millis(10));
  poll(false);
  now += Millis(5);
  EXPECT_EQ(poll(false), Millis(5));
  EXPECT_EQ(step(Millis(1), Millis(1)), Nanos(0));
  EXPECT_EQ(step(Millis(4), Millis(4)), Nanos(0));
  EXPECT_EQ(step(Millis(1), Millis(1)), Millis(1));
}
TEST_F(CudaMeterTest, AClientThatReportsSoHasDrained) {
  meter.granted(at(now));
  report(kProcess, {}, Millis(3));
  meter.revoked(at(now += Millis(1)));
  EXPECT_FALSE(meter.drained(at(now), at(now), true));
  report(kProcess, {}, Nanos(0));
  EXPECT_TRUE(meter.drained(at(now), at(now), false));
}

// --- several processes ---------------------------------------------------------------------------

// Two that run by turns: to each its own kernels seem to take as long as both's.
class CudaMeterOfTwo : public CudaMeterTest {
 protected:
  CudaMeterOfTwo() {
    add(kOther);
    second(kHeld, kSecond * kHeld / 2, kHeld, kSecond * kHeld / 2);
    EXPECT_TRUE(meter.confirmed());
  }
};

TEST_F(CudaMeterOfTwo, TogetherTheyPayForTheTimeInWhichTheyHadTheDevice) {
  for (int i = 0; i < kSecond; ++i) EXPECT_EQ(window(kHeld, kHeld), kHeld + kOfDrain);
  EXPECT_EQ(window(kHeld / 4, kHeld / 4), kHeld / 2 + kOfDrain) << "which they did not use up";
  meter.granted(at(now));
  EXPECT_EQ(step(kHeld, kHeld, kHeld, false), kHeld);
  meter.remove_process(kOther);
  EXPECT_LE(step(Micros(1), {}, {}, false), Micros(1)) << "alone from here on";
  EXPECT_LE(step(kHeld, kHeld, {}, false), kHeld + Micros(1));
}
// A kernel that is expected says nothing of when it begins: its sibling's may come first.
TEST_F(CudaMeterOfTwo, TheDeviceIsTheirsUntilTheWorkOfBothHasRun) {
  meter.granted(at(now));
  now += Millis(1);
  for (const auto& process : {kProcess, kOther}) report(process, {}, Millis(1));
  const Time revoked = at(now);
  meter.revoked(revoked);
  EXPECT_FALSE(meter.drained(revoked + Millis(2), revoked, true));
  now += Millis(3);
  report(kProcess, Millis(3), Nanos(0));
  EXPECT_FALSE(meter.drained(revoked + Millis(4), revoked, true));
  EXPECT_TRUE(meter.drained(revoked + Millis(4) + CudaMeter::kNews, revoked, true));
}
// They drain by their reports, and report later what ran on: each truly, and together they would
// pay for a part of it.
TEST_F(CudaMeterOfTwo, WhatTheyDidAfterTheirDrainsIsFound) {
  const Nanos each = kSecond * 2 * kHeld;
  EXPECT_GE(second(2 * kHeld, each, 2 * kHeld, each), 2 * (each - kRounded));
  EXPECT_TRUE(meter.misreports());
}
// The account does not list it meanwhile.
TEST_F(CudaMeterOfTwo, AnIdleOneNeitherHarmsNorShieldsTheOther) {
  for (int s = 0; s < 60; ++s) second(kHeld, kSecond * kHeld);
  second(kHeld / 2, kSecond * kHeld / 2, kHeld / 2, kSecond * kHeld / 2);
  EXPECT_TRUE(meter.confirmed());
  for (int s = 0; s < 2; ++s) second(2 * kHeld, kSecond * 2 * kHeld);
  EXPECT_TRUE(meter.misreports());
}

}  // namespace
}  // namespace sluice::node
