#include "node/meter_cuda.h"

#include <gmock/gmock.h>

#include <map>

#include "base/random.h"

namespace sluice::node {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::Le;

const Time kStart{std::chrono::hours(1)};
constexpr ProcessIdentity kProcess{.pid = 7, .start_time = 1}, kOther{.pid = 8, .start_time = 1};

Time at(Nanos t) {
  return kStart + t;
}

sluice_device_report words(Nanos busy, Nanos seen, Nanos in_flight) {
  return {.busy_ns = static_cast<uint64_t>(busy.count()),
          .seen_ns = static_cast<uint64_t>(at(seen).time_since_epoch().count()),
          .in_flight_ns = static_cast<uint64_t>(in_flight.count()),
          .longest_ns = 0};
}

// What was reported, and what is believed of it then.
TEST(ClaimedUse, CountsNoFasterThanTimePasses) {
  ClaimedUse use(kStart);
  const struct {
    const char* what;
    sluice_device_report says;
    Nanos now, busy, in_flight;
  } kTable[] = {
      {"nothing yet", {}, Millis(1), Millis(0), Millis(0)},
      {"as it is", words(Millis(1), Millis(2), Millis(0)), Millis(2), Millis(1), Millis(0)},
      {"older news", words(Millis(9), Millis(1), Millis(9)), Millis(2), Millis(1), Millis(0)},
      {"no newer than now", words(Millis(2), Millis(99), Millis(0)), Millis(3), Millis(2),
       Millis(0)},
      {"a kernel begins", words(Millis(2), Millis(4), Millis(20)), Millis(4), Millis(2),
       Millis(20)},
      {"and runs", words(Millis(2), Millis(14), Millis(20)), Millis(14), Millis(12), Millis(20)},
      {"and ends", words(Millis(22), Millis(24), Millis(0)), Millis(24), Millis(22), Millis(0)},
      {"more than passed", words(Seconds(9), Millis(30), Millis(0)), Millis(30), Millis(30),
       Millis(0)},
      {"less than before", words(Millis(3), Millis(40), Millis(0)), Millis(40), Millis(31),
       Millis(0)},
      {"all ones",
       {.busy_ns = ~0ull, .seen_ns = ~0ull, .in_flight_ns = ~0ull, .longest_ns = ~0ull},
       Millis(50),
       Millis(50),
       ClaimedUse::kMostInFlight},
  };
  for (const auto& row : kTable) {
    use.hear(row.says, at(row.now));
    EXPECT_EQ(use.busy(at(row.now)), row.busy) << row.what;
    EXPECT_EQ(use.in_flight(), row.in_flight) << row.what;
  }
}

// The device's account, in the hand of a test.
class ScriptedAccount : public DeviceAccount {
 public:
  std::optional<DeviceUse> latest(pid_t pid) const override {
    const auto found = uses_.find(pid);
    return found == uses_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<DeviceMemory> memory(pid_t) const override { return std::nullopt; }
  void tell(pid_t pid, Nanos from, Nanos until, Nanos busy) {
    uses_[pid] = {at(from), at(until), busy, (until - from) / 100};
  }

 private:
  std::map<pid_t, DeviceUse> uses_;
};

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
    EXPECT_TRUE(meter.drained(at(now), at(now) - Millis(2), true));
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

  std::shared_ptr<ScriptedAccount> account;
  CudaMeter meter;
  Nanos now{0}, total{0};
};

constexpr Nanos kHeld = Millis(4), kUsed = Millis(3), kDrain = Millis(2);
constexpr int kSecond = 50;  // windows

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
  EXPECT_EQ(step(kHeld, Nanos(0), true), kHeld);
}
TEST_F(CudaMeterTest, WhoReportsMoreThanItHeldPaysForThat) {
  EXPECT_GE(windows(kSecond, kHeld, Millis(9)), kSecond * Millis(9));
}
TEST_F(CudaMeterTest, WhoNeverReportsPaysForItsLease) {
  EXPECT_EQ(windows(kSecond, kHeld, kUsed, false), kSecond * (kHeld + kDrain));
  account_for(kSecond * kUsed);
  EXPECT_EQ(windows(kSecond, kHeld, kUsed, false), kSecond * (kHeld + kDrain));
}
TEST_F(CudaMeterTest, WhomTheDeviceConfirmsPaysForItsReport) {
  windows(kSecond, kHeld, kUsed);
  account_for(kSecond * kUsed);
  window(kHeld, kUsed);
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
  windows(kSecond, kHeld, kUsed);
  account_for(kSecond * kUsed);
  window(kHeld, kUsed);
  ASSERT_TRUE(meter.believed());
  Nanos charged = windows(kSecond, kHeld, Nanos(0));
  EXPECT_LE(charged, kSecond * (kDrain - CudaMeter::kNews));
  account_for(Millis(900));
  charged += window(kHeld, Nanos(0));
  EXPECT_FALSE(meter.believed());
  EXPECT_GE(charged, Millis(900));

  account_for(Millis(0));  // what it says agrees again; not yet
  windows(kSecond, kHeld, kUsed);
  account_for(kSecond * kUsed);
  window(kHeld, kUsed);
  EXPECT_FALSE(meter.believed());
  windows(60 * kSecond, kHeld, kUsed);
  account_for(kSecond * kUsed);
  window(kHeld, kUsed);
  EXPECT_TRUE(meter.believed());
}

// As an exec of a program that has used the device: to the account it is the same process.
TEST_F(CudaMeterTest, WhoAttachesAgainIsJudgedAsOne) {
  windows(kSecond, kHeld, kUsed);
  account_for(kSecond * kUsed);
  window(kHeld, kUsed);
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
  windows(kSecond, kHeld, kUsed);
  account_for(kSecond * kUsed);
  window(kHeld, kUsed);
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
  windows(kSecond, kHeld, kUsed);
  account_for(kSecond * kUsed);
  window(kHeld, kUsed);
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
  windows(kSecond, kHeld, kUsed);
  account_for(kSecond * kUsed);
  window(kHeld, kUsed);
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
  windows(kSecond, kHeld, kUsed);
  account_for(kSecond * kUsed);
  window(kHeld, kUsed);
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

// Whatever stands on the pages, whenever: a client pays at least for its lease while it is not
// believed, never for more than has passed, and is drained in the end.
TEST(CudaMeterProperty, HostilePagesGainNothingAndDoNoHarm) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto blind = std::make_shared<ScriptedAccount>();
    CudaMeter meter(random.chance(0.5) ? blind : nullptr, kStart);
    meter.add_process(kProcess);
    if (random.chance(0.5)) meter.add_process(kOther);
    Nanos now{0}, lease{0}, charged{0};
    bool held = false, draining = false;
    Nanos revoked{0};
    const auto word = [&]() -> uint64_t {
      switch (random.below(4)) {
        case 0:
          return random.next();
        case 1:
          return random.below(1'000'000'000);
        case 2:
          return static_cast<uint64_t>(at(now).time_since_epoch().count()) -
                 random.below(10'000'000);
        default:
          return 0;
      }
    };
    for (int i = 0; i < 300; ++i) {
      const Nanos by(random.between(-10'000, 3'000'000));
      now = std::max(now, now + by);
      if (held || draining) lease += std::max(by, Nanos(0));
      meter.report(
          random.chance(0.5) ? kProcess : kOther,
          {.busy_ns = word(), .seen_ns = word(), .in_flight_ns = word(), .longest_ns = word()},
          at(now));
      if (const auto reading = meter.poll(at(now), random.chance(0.5))) {
        EXPECT_GE(reading->busy, Nanos(0));
        EXPECT_THAT(reading->seen_until, AllOf(Ge(kStart), Le(at(now))));
        charged += reading->busy;
        EXPECT_GE(charged, lease);
        EXPECT_LE(charged, now);
      }
      switch (random.below(4)) {
        case 0:
          meter.granted(at(now));
          held = true;
          draining = false;
          break;
        case 1:
          meter.revoked(at(now));
          held = false;
          draining = true;
          revoked = now;
          break;
        default:
          if (draining && meter.drained(at(now), at(revoked), random.chance(0.5))) draining = false;
          break;
      }
    }
    meter.revoked(at(now));
    EXPECT_TRUE(meter.drained(at(now) + Seconds(1), at(now), false));
  }
}

// A client of one process or two: honest until it is believed, then whatever stands on its pages
// and whatever it does, with its permit or without. The account tells of each stretch of time at
// its end, and cuts off.
class WhoTurns {
 public:
  explicit WhoTurns(uint64_t seed) : random_(seed) {
    meter_.add_process(kProcess);
    if (random_.chance(0.5)) {
      processes_.push_back({kOther});
      meter_.add_process(kOther);
    }
  }

  void be_honest() {
    for (int s = 0; s < 10 && !meter_.believed(); ++s) {
      for (const Time end = at(now_ + Seconds(1)); at(now_) < end;) {
        hold(now_ / Millis(10) % 2 == 0);
        work(Millis(1), held_ ? 0.5 : 0, 1);
        tell(Nanos(0));
        poll();
      }
      account_for_it();
    }
    EXPECT_TRUE(meter_.believed());
    used_ = charged_ = slack_ = Nanos(0);
  }
  // For a stretch of time: it uses what it likes, and says a part of it, or anything.
  void be_hostile() {
    const double load = random_.chance(0.3) ? 0 : random_.uniform();
    const double said = random_.chance(0.5) ? 0 : random_.uniform();
    const double permits = random_.chance(0.7) ? 0 : 0.5;
    const double babble = random_.chance(0.8) ? 0 : 0.1;
    for (const Time end = at(now_ + Millis(random_.between(500, 1000))); at(now_) < end;) {
      if (random_.chance(0.2)) hold(random_.chance(permits));
      work(Micros(random_.between(100, 3000)), load, said);
      tell(random_.chance(babble) ? Micros(random_.between(0, 300'000)) : Nanos(0));
      poll();
    }
    account_for_it();
  }

  Nanos charged() const { return charged_; }
  Nanos passed() const { return now_; }
  // Of what it used: the rest is what the account cannot tell.
  Nanos owed() const { return used_ - slack_; }

 private:
  struct Process {
    ProcessIdentity id;
    Nanos said{0}, unaccounted{0};
  };

  void hold(bool held) {
    if (held == held_) return;
    held_ = held;
    if (held)
      meter_.granted(at(now_));
    else
      meter_.revoked(at(now_));
  }
  void work(Nanos by, double load, double said) {
    now_ += by;
    if (!held_) (void)meter_.drained(at(now_), at(now_), true);
    for (Process& p : processes_) {
      const Nanos used = from_seconds(seconds(by) * load / static_cast<double>(processes_.size()));
      p.unaccounted += used;
      p.said += from_seconds(seconds(used) * said);
      used_ += used;
    }
  }
  void tell(Nanos in_flight) {
    for (const Process& p : processes_)
      meter_.report(p.id, words(p.said, now_, in_flight), at(now_));
  }
  void poll() {
    if (const auto reading = meter_.poll(at(now_), random_.chance(0.5))) charged_ += reading->busy;
  }
  void account_for_it() {
    for (Process& p : processes_) {
      const Nanos resolution = (now_ - told_until_) / 100;
      account_->tell(p.id.pid, told_until_, now_, p.unaccounted / resolution * resolution);
      p.unaccounted = Nanos(0);
      slack_ += 2 * resolution + CudaMeter::kSkew;
    }
    told_until_ = now_;
    work(Micros(1), 0, 0);
    poll();
  }

  Random random_;
  const std::shared_ptr<ScriptedAccount> account_ = std::make_shared<ScriptedAccount>();
  CudaMeter meter_{account_, kStart};
  std::vector<Process> processes_{{kProcess}};
  Nanos now_{0}, told_until_{0}, used_{0}, charged_{0}, slack_{0};
  bool held_ = false;
};

TEST(CudaMeterProperty, WhoIsBelievedGainsNothingByLyingThen) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    WhoTurns client(seed);
    client.be_honest();
    for (int stretch = 0; stretch < 8; ++stretch) {
      client.be_hostile();
      EXPECT_GE(client.charged(), client.owed());
      EXPECT_LE(client.charged(), client.passed());
    }
  }
}

}  // namespace
}  // namespace sluice::node
