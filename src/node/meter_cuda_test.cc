#include "node/meter_cuda.h"

#include <gmock/gmock.h>

#include "node/device_reports_for_test.h"

namespace sluice::node {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::Le;

constexpr Nanos kHeld = Millis(4), kUsed = Millis(3), kDrain = Millis(2);
constexpr int kSecond = 50;  // windows

// A client that holds its permit for the first part of each window of 20 ms, drains at once, and
// reports as it likes.
class CudaMeterTest : public testing::Test {
 protected:
  CudaMeterTest() : account(std::make_shared<ScriptedAccount>()), meter(account, kStart) {
    meter.add_process(kProcess);
  }

  // One window; returns what it was charged.
  Nanos window(Nanos held, Nanos reported, bool reports = true) {
    Nanos charged{0};
    meter.granted(at(now));
    charged += step(Nanos(1), Nanos(0), reports, false);
    charged += step(held - Nanos(1), reports ? reported : Nanos(0), reports, false);
    meter.revoked(at(now));
    charged += step(Millis(2), Nanos(0), reports);
    EXPECT_TRUE(meter.drained(at(now), at(now) - Millis(2), true) || found_out);
    charged += step(Millis(18) - held, Nanos(0), reports);
    return charged;
  }
  Nanos windows(int n, Nanos held, Nanos reported, bool reports = true) {
    Nanos charged{0};
    for (int i = 0; i < n; ++i) charged += window(held, reported, reports);
    return charged;
  }
  Nanos step(Nanos by, Nanos busy, bool reports, bool resting = true) {
    now += by;
    total += busy;
    if (reports) meter.report(kProcess, words(total, now, Nanos(0)), at(now));
    const auto reading = meter.poll(at(now), resting);
    return reading ? reading->busy : Nanos(0);
  }
  // The device's account of the last second.
  void account_for(Nanos busy) { account->tell(kProcess.pid, now - Seconds(1), now, busy); }
  // A second that the account confirms.
  void be_honest() {
    windows(kSecond, kHeld, kUsed);
    account_for(kSecond * kUsed);
    window(kHeld, kUsed);
  }

  std::shared_ptr<ScriptedAccount> account;
  CudaMeter meter;
  Nanos now{0}, total{0};
  bool found_out = false;  // and has the device for longer than it says
};

TEST_F(CudaMeterTest, WhoIsNotConfirmedPaysForItsLease) {
  const Nanos lease = kSecond * (kHeld + kDrain);
  EXPECT_THAT(windows(kSecond, kHeld, kUsed), AllOf(Ge(lease - Micros(1)), Le(lease)));
}
TEST_F(CudaMeterTest, OfALeaseWhoseHolderDoesNotWakeOnlyItsDrainIsCharged) {
  windows(kSecond, kHeld, kUsed);
  account_for(kSecond * kUsed);
  step(Millis(1), Nanos(0), true);
  meter.granted(at(now));
  EXPECT_EQ(step(kHeld, Nanos(0), true), Nanos(0));
  meter.revoked(at(now));
  EXPECT_TRUE(meter.drained(at(now), at(now), true));
}
// As clients of MPS do: what they use while they say that they rest would never be found out.
TEST_F(CudaMeterTest, OneThatTheDeviceDoesNotKnowPaysForItsLeaseWhateverItSays) {
  step(Millis(1), Micros(1), true);
  meter.granted(at(now));
  EXPECT_EQ(step(kHeld, Nanos(0), true), kHeld - CudaMeter::kWakeUp);
}
TEST_F(CudaMeterTest, OnceItIsAwakeItPaysForAllOfIt) {
  meter.granted(at(now));
  step(Nanos(1), Nanos(0), true, false);
  EXPECT_EQ(step(kHeld, Nanos(0), true), kHeld);
}
TEST_F(CudaMeterTest, WhoReportsMoreThanItHeldPaysForThat) {
  EXPECT_GE(windows(kSecond, kHeld, Millis(9)), kSecond * Millis(9));
}
TEST_F(CudaMeterTest, WhoNeverReportsPaysForItsLease) {
  const auto is_its_lease =
      AllOf(Ge(kSecond * (kHeld + kDrain) - Micros(1)), Le(kSecond * (kHeld + kDrain)));
  EXPECT_THAT(windows(kSecond, kHeld, kUsed, false), is_its_lease);
  account_for(kSecond * kUsed);
  EXPECT_THAT(windows(kSecond, kHeld, kUsed, false), is_its_lease);
}
// It queues more than runs while it holds its permit, and lets the rest run in others' turns.
TEST_F(CudaMeterTest, WhoNeverReportsKeepsTheDeviceForAsLongAsItsWorkRunsOn) {
  const auto drained_after = [&] {
    meter.granted(at(now));
    step(Nanos(1), Nanos(0), false, false);
    step(kHeld, Nanos(0), false, false);
    const Nanos revoked = now;
    meter.revoked(at(now));
    while (!meter.drained(at(now), at(revoked), true)) step(Micros(100), Nanos(0), false);
    const Nanos took = now - revoked;
    step(Millis(20) - kHeld - took - Nanos(1), Nanos(0), false);
    return took;
  };
  const auto second_of = [&](Nanos used_in_each_window) {
    for (int i = 0; i < kSecond; ++i) drained_after();
    account_for(kSecond * used_in_each_window);
    return drained_after();
  };
  EXPECT_EQ(drained_after(), kDrain);
  EXPECT_EQ(second_of(kHeld + Millis(5)), Millis(5));
  EXPECT_EQ(second_of(kHeld + Millis(5)), Millis(5));
  EXPECT_EQ(second_of(kHeld), kDrain);
}
TEST_F(CudaMeterTest, WhomTheDeviceConfirmsPaysForItsReport) {
  be_honest();
  EXPECT_TRUE(meter.believed());
  EXPECT_EQ(windows(kSecond, kHeld, kUsed), kSecond * (kUsed + kDrain - CudaMeter::kNews));
}
TEST_F(CudaMeterTest, WhoUsesLittleIsConfirmedInTheEnd) {
  for (int i = 0; i < 5; ++i) {
    windows(kSecond, kHeld, Micros(200));
    account_for(kSecond * Micros(200));
  }
  window(kHeld, Micros(200));
  EXPECT_TRUE(meter.believed());
}
TEST_F(CudaMeterTest, AnIdleDeviceConfirmsNobody) {
  windows(kSecond, kHeld, Nanos(0));
  account_for(Nanos(0));
  window(kHeld, Nanos(0));
  EXPECT_FALSE(meter.believed());
}

// Confirmed, it goes on to report nothing: the device tells, and it gets nothing for it.
TEST_F(CudaMeterTest, WhoLiesLaterPaysForAllOfIt) {
  be_honest();
  ASSERT_TRUE(meter.believed());
  Nanos charged = windows(kSecond, kHeld, Nanos(0));
  EXPECT_LE(charged, kSecond * (kDrain - CudaMeter::kNews));
  account_for(Millis(900));
  found_out = true;
  charged += window(kHeld, Nanos(0));
  EXPECT_FALSE(meter.believed());
  EXPECT_GE(charged, Millis(900));

  account_for(Millis(0));  // what it says agrees again; not yet
  be_honest();
  EXPECT_FALSE(meter.believed());
  windows(60 * kSecond, kHeld, kUsed);
  account_for(kSecond * kUsed);
  window(kHeld, kUsed);
  EXPECT_TRUE(meter.believed());
}

// Honest for long before: only the drains of the time in which it was not say how long.
TEST_F(CudaMeterTest, WhoLiesKeepsTheDeviceForAsLongAsItsWorkRanOn) {
  for (int s = 0; s < 10; ++s) {
    windows(kSecond, kHeld, kUsed);
    account_for(kSecond * kUsed);
  }
  window(kHeld, kUsed);
  windows(kSecond, kHeld, Nanos(0));
  account_for(kSecond * (kHeld + Millis(12)));
  step(Millis(1), Nanos(0), true);
  meter.granted(at(now));
  step(kHeld, Nanos(0), true, false);
  const Nanos revoked = now;
  meter.revoked(at(now));
  step(Millis(9), Nanos(0), true);
  EXPECT_FALSE(meter.drained(at(now), at(revoked), true));
  step(Millis(4), Nanos(0), true);
  EXPECT_TRUE(meter.drained(at(now), at(revoked), true));
}

// As an exec of a program that has used the device: to the account it is the same process.
TEST_F(CudaMeterTest, WhoAttachesAgainIsJudgedAsOne) {
  be_honest();
  ASSERT_TRUE(meter.believed());
  now += Micros(1);
  meter.report(kProcess, words(total, now, Millis(100)), at(now));
  meter.remove_process(kProcess);
  meter.add_process(kProcess);
  const Nanos again = now;
  total = Nanos(0);
  meter.granted(at(now));
  for (int i = 0; i < 8; ++i) step(Millis(10), Millis(7), true, false);
  const Nanos since = Millis(80);  // what was left ran on, by turns
  account_for(46 * kUsed + since);
  step(Millis(1), Nanos(0), true, false);
  EXPECT_TRUE(meter.believed());
  account->tell(kProcess.pid, again, now, since);
  step(Millis(1), Nanos(0), true, false);
  EXPECT_TRUE(meter.believed());
}
// Nobody would know it for as long as a stretch of the account, if not by what it said before.
TEST_F(CudaMeterTest, WhoLiesAndAttachesAgainAndAgainPaysForAllOfIt) {
  be_honest();
  ASSERT_TRUE(meter.believed());
  Nanos charged{0};
  for (int i = 0; i < kSecond; ++i) {
    meter.remove_process(kProcess);
    meter.add_process(kProcess);
    total = Nanos(0);
    charged += window(kHeld, Nanos(0));
  }
  account_for(Millis(900));
  found_out = true;
  charged += window(kHeld, Nanos(0));
  EXPECT_FALSE(meter.believed());
  EXPECT_GE(charged, Millis(900));
}
// The account tells of it when it is no longer there.
TEST_F(CudaMeterTest, WhoLiesAndLeavesIsFoundOutAllTheSame) {
  be_honest();
  ASSERT_TRUE(meter.believed());
  Nanos charged = windows(kSecond, kHeld, Nanos(0));
  meter.remove_process(kProcess);
  charged += step(Millis(500), Nanos(0), false);
  account->tell(kProcess.pid, now - Millis(1400), now - Millis(400), Millis(900));
  charged += step(Millis(500), Nanos(0), false);
  EXPECT_FALSE(meter.believed());
  EXPECT_GE(charged, Millis(900));
}
// It is back after a while, and works before the next look: all of that is of the time since then.
TEST_F(CudaMeterTest, WhatItSaysWhenItIsBackIsNotSpreadOverTheTimeWithoutIt) {
  be_honest();
  meter.remove_process(kProcess);
  step(Millis(1), Nanos(0), false);
  step(Seconds(1), Nanos(0), false);
  meter.add_process(kProcess);
  total = Nanos(0);
  meter.granted(at(now));
  const Nanos back = now;
  step(Millis(100), Millis(90), true, false);
  account->tell(kProcess.pid, back - Millis(500), now, Millis(90));
  step(Millis(1), Nanos(0), true, false);
  EXPECT_TRUE(meter.believed());
}
// What it does past the gate, once it has left, is charged beside the meter.
TEST_F(CudaMeterTest, WhatBeganAfterItHadLeftIsNotItsMeters) {
  be_honest();
  meter.remove_process(kProcess);
  step(Millis(1200), Nanos(0), false);
  account->tell(kProcess.pid, now - Millis(1000), now, Millis(900));
  EXPECT_EQ(step(Millis(500), Nanos(0), false), Nanos(0));
  EXPECT_TRUE(meter.believed());
}
// Two processes that run by turns: to each its own kernels seem to take as long as both's, so each
// says that it was busy all the time.
class CudaMeterOfTwo : public CudaMeterTest {
 protected:
  CudaMeterOfTwo() { meter.add_process(kOther); }

  // One window, of which they have the device for four milliseconds.
  Nanos window_of_two(Nanos said_by_each, Nanos in_flight = Nanos(0)) {
    Nanos charged{0};
    meter.granted(at(now));
    charged += both(Micros(1), Nanos(0), Nanos(0), false);
    charged += both(kHeld - Micros(1), said_by_each, in_flight, false);
    meter.revoked(at(now));
    EXPECT_EQ(meter.drained(at(now), at(now), true), in_flight == Nanos(0));
    EXPECT_TRUE(meter.drained(at(now + 2 * in_flight) + CudaMeter::kNews, at(now), true));
    charged += both(Millis(16), Nanos(0), Nanos(0), true);
    return charged;
  }
  Nanos both(Nanos by, Nanos busy, Nanos in_flight, bool resting) {
    now += by;
    total += busy;
    for (const ProcessIdentity& process : {kProcess, kOther})
      meter.report(process, words(total, now, in_flight), at(now));
    const auto reading = meter.poll(at(now), resting);
    return reading ? reading->busy : Nanos(0);
  }
  // One window, of which the first alone has the device for four milliseconds.
  Nanos one_of_two(Nanos said = kHeld) {
    meter.granted(at(now));
    Nanos charged = step(Micros(1), Nanos(0), true, false);
    charged += step(kHeld - Micros(1), said, true, false);
    meter.revoked(at(now));
    EXPECT_TRUE(meter.drained(at(now) + CudaMeter::kNews, at(now), true));
    return charged + step(Millis(16), Nanos(0), true, true);
  }
  void account_for_both(Nanos busy_of_each) {
    for (const ProcessIdentity& process : {kProcess, kOther})
      account->tell(process.pid, now - Seconds(1), now, busy_of_each);
  }
  void confirm() {
    for (int i = 0; i < kSecond; ++i) window_of_two(kHeld);
    account_for_both(kSecond * kHeld / 2);
    window_of_two(kHeld);
    ASSERT_TRUE(meter.believed());
  }
};

TEST_F(CudaMeterOfTwo, TogetherTheyPayForTheTimeInWhichTheyHadTheDevice) {
  confirm();
  for (int i = 0; i < kSecond; ++i) EXPECT_EQ(window_of_two(kHeld), kHeld);
  EXPECT_EQ(window_of_two(kHeld / 4), kHeld / 2) << "which they did not use up";
}

TEST_F(CudaMeterOfTwo, WhatCountedOnceDoesSoWhenOneOfThemHasEnded) {
  confirm();
  meter.granted(at(now));
  both(Micros(1), Nanos(0), Nanos(0), false);
  EXPECT_LE(both(kHeld, kHeld, Nanos(0), false), kHeld + Micros(1));
  meter.remove_process(kOther);
  EXPECT_LE(step(Micros(1), Nanos(0), true, false), Micros(1));
  EXPECT_LE(step(kHeld, kHeld, true, false), kHeld + Micros(1));
}

TEST_F(CudaMeterOfTwo, TheDeviceIsTheirsUntilTheWorkOfBothHasRun) {
  meter.granted(at(Millis(0)));
  both(Millis(1), Millis(1), Millis(3), false);
  meter.revoked(at(now));
  EXPECT_FALSE(meter.drained(at(Millis(7)), at(Millis(1)), true));
  EXPECT_TRUE(meter.drained(at(Millis(7) + CudaMeter::kNews), at(Millis(1)), true));
}

// What one expects of its kernel says nothing of when it began: its sibling's was before it.
TEST_F(CudaMeterOfTwo, WhoseTurnComesLastHasItsTimeAfterTheOther) {
  const auto report = [&](const ProcessIdentity& process, Nanos busy, Nanos in_flight) {
    meter.report(process, words(busy, now, in_flight), at(now));
  };
  meter.granted(at(now));
  now += Millis(1);
  report(kProcess, Nanos(0), Millis(1));
  report(kOther, Nanos(0), Millis(1));
  meter.revoked(at(now));
  now = Millis(4);
  report(kProcess, Millis(3), Nanos(0));
  EXPECT_FALSE(meter.drained(at(Millis(5)), at(Millis(1)), true));
  EXPECT_TRUE(meter.drained(at(Millis(5) + CudaMeter::kNews), at(Millis(1)), true));
}

// They say that they have drained, and later what ran on after it: each tells the truth, and
// together they would have paid for a part of it.
TEST_F(CudaMeterOfTwo, WhatTheyDidAfterTheyHadDrainedIsFoundOut) {
  confirm();
  Nanos charged{0};
  for (int i = 0; i < kSecond; ++i) charged += window_of_two(2 * kHeld);
  account_for_both(kSecond * 2 * kHeld);
  charged += window_of_two(2 * kHeld);
  EXPECT_FALSE(meter.believed());
  EXPECT_GE(charged, kSecond * 4 * kHeld - Micros(10));
}

// The account does not list who used nothing. When that one is back, the others' use meanwhile is
// long paid for.
TEST_F(CudaMeterOfTwo, OneThatIsIdleForLongDoesNotHarmTheOther) {
  confirm();
  for (int s = 0; s < 60; ++s) {
    for (int i = 0; i < kSecond; ++i) one_of_two();
    account->tell(kProcess.pid, now - Seconds(1), now, kSecond * kHeld);
    both(Micros(1), Nanos(0), Nanos(0), true);
  }
  ASSERT_TRUE(meter.believed());
  for (int i = 0; i < kSecond; ++i) window_of_two(kHeld / 2);
  account_for_both(kSecond * kHeld / 2);
  window_of_two(kHeld);
  EXPECT_TRUE(meter.believed());
}
// Nor does it shield the others.
TEST_F(CudaMeterOfTwo, WhatOneDidAfterItHadDrainedIsFoundOutWhileTheOtherIsIdle) {
  confirm();
  for (int s = 0; s < 2; ++s) {
    for (int i = 0; i < kSecond; ++i) one_of_two(2 * kHeld);
    account->tell(kProcess.pid, now - Seconds(1), now, kSecond * 2 * kHeld);
    both(Micros(1), Nanos(0), Nanos(0), true);
  }
  EXPECT_FALSE(meter.believed());
}

TEST_F(CudaMeterTest, WithoutFreshConfirmationBeliefEnds) {
  be_honest();
  ASSERT_TRUE(meter.believed());
  windows(30 * kSecond, kHeld, kUsed);
  EXPECT_FALSE(meter.believed());
}
TEST_F(CudaMeterTest, WhatTheDeviceRoundsIsNoLie) {
  for (int i = 0; i < 30; ++i) {
    windows(kSecond, kHeld, kUsed);
    account_for(kSecond * kUsed + Millis(i % 2 == 0 ? 9 : -9));
  }
  window(kHeld, kUsed);
  EXPECT_TRUE(meter.believed());
}

// Stopped with 10 ms in its queue: that runs on, is charged as it does, and the device is the
// client's until then.
TEST_F(CudaMeterTest, AStoppedClientIsChargedForWhatItHasInFlight) {
  be_honest();
  ASSERT_TRUE(meter.believed());
  meter.granted(at(now));
  now += Millis(1);
  meter.report(kProcess, words(total, now, Millis(10)), at(now));
  EXPECT_EQ(meter.poll(at(now), false)->busy, Nanos(0));
  meter.revoked(at(now));
  now += Millis(5);
  EXPECT_EQ(meter.poll(at(now), false)->busy, Millis(5));
  EXPECT_FALSE(meter.drained(at(now), at(now) - Millis(5), false));
  now += Millis(20);
  EXPECT_EQ(meter.poll(at(now), false)->busy, Millis(25) - CudaMeter::kNews - Millis(5));
  EXPECT_TRUE(meter.drained(at(now), at(now) - Millis(25), false));
}
// 10 ms were expected, of which 1 ms came true.
TEST_F(CudaMeterTest, WhatWasExpectedIsSetRight) {
  be_honest();
  ASSERT_TRUE(meter.believed());
  meter.granted(at(now));
  meter.report(kProcess, words(total, now + Micros(1), Millis(10)), at(now += Micros(1)));
  meter.poll(at(now), false);
  now += Millis(5);
  EXPECT_EQ(meter.poll(at(now), false)->busy, Millis(5));
  EXPECT_EQ(step(Millis(1), Millis(1), true), Nanos(0));
  EXPECT_EQ(step(Millis(4), Millis(4), true), Nanos(0));
  EXPECT_EQ(step(Millis(1), Millis(1), true), Millis(1));
}
TEST_F(CudaMeterTest, SoIsOneThatWasKilled) {
  be_honest();
  meter.granted(at(now));
  now += Millis(1);
  meter.report(kProcess, words(total, now, Millis(10)), at(now));
  meter.poll(at(now), false);
  meter.remove_process(kProcess);
  meter.revoked(at(now));
  EXPECT_FALSE(meter.drained(at(now) + Millis(9), at(now), true));
  EXPECT_TRUE(meter.drained(at(now) + Millis(10), at(now), true));
  EXPECT_EQ(meter.poll(at(now) + Millis(10), true)->busy, Millis(10));
}
TEST_F(CudaMeterTest, DrainedIsWhoSaysSoSinceItsPermitEnded) {
  meter.granted(at(Millis(0)));
  meter.report(kProcess, words(Millis(1), Millis(1), Millis(3)), at(Millis(1)));
  meter.revoked(at(Millis(1)));
  EXPECT_FALSE(meter.drained(at(Millis(2)), at(Millis(1)), true));
  meter.report(kProcess, words(Millis(2), Millis(2), Millis(0)), at(Millis(2)));
  EXPECT_TRUE(meter.drained(at(Millis(2)), at(Millis(1)), false));
}

}  // namespace
}  // namespace sluice::node
