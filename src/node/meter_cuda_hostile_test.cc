// The GPU's meter under clients that say and do what they like.
#include <gmock/gmock.h>

#include "base/random.h"
#include "node/device_reports_for_test.h"
#include "node/meter_cuda.h"

namespace sluice::node {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::Le;

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
          if (!held) lease -= CudaMeter::kWakeUp;
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
// and whatever it does, with its permit or without, attaching again if it likes. The account tells
// of each stretch of time at its end, and cuts off.
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
    const double again = random_.chance(0.7) ? 0 : 0.2;
    for (const Time end = at(now_ + Millis(random_.between(500, 1000))); at(now_) < end;) {
      if (random_.chance(0.2)) hold(random_.chance(permits));
      if (random_.chance(again)) attach_again();
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
  void attach_again() {
    Process& p = processes_[random_.below(processes_.size())];
    meter_.remove_process(p.id);
    meter_.add_process(p.id);
    p.said = Nanos(0);
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
