// The GPU's meter under a client that reports and does what it likes. (What its page may hold:
// usage_page_fuzz.cc.)
#include <gtest/gtest.h>

#include "base/random.h"
#include "gpu/meter_cuda.h"
#include "tests/support/device_reports.h"

namespace sluice::node {
namespace {

// What a client does in an interval: its load of the device, the part of that which it reports, how
// often it holds a permit, expects work in flight, attaches again.
struct Conduct {
  double load = 0, reported = 0, permits = 0, in_flight = 0, attaches = 0;
};

// A client of one process or two. The account tells of each interval at its end, and cuts off.
class Client {
 public:
  explicit Client(uint64_t seed) : random_(seed) {
    if (random_.chance(0.5)) processes_.push_back({kOther});
    for (const Process& p : processes_) meter.add_process(p.id);
  }

  void live(const Conduct& conduct) {
    const Nanos began = now;
    while (now < began + Seconds(1)) {
      if (random_.chance(0.2)) {
        random_.chance(conduct.permits) ? meter.granted(at(now)) : meter.revoked(at(now));
        (void)meter.drained(at(now), at(now), true);
      }
      step(Micros(random_.between(100, 3000)), conduct);
    }
    for (Process& p : processes_) {
      const Nanos resolution = (now - began) / 100;
      account->tell(p.id.pid, began, now, p.unaccounted / resolution * resolution);
      p.unaccounted = Nanos(0);
      slack += 2 * resolution;
    }
    step(UsageAudit::kSampleEvery, {});
  }

  const std::shared_ptr<ScriptedAccount> account = std::make_shared<ScriptedAccount>();
  CudaMeter meter{account, kStart};
  Nanos now{0}, used{0}, charged{0};
  Nanos slack{0};  // of what it used, what the account cannot tell

 private:
  struct Process {
    ProcessIdentity id;
    Nanos reported{0}, unaccounted{0};
  };

  void step(Nanos by, const Conduct& conduct) {
    now += by;
    for (Process& p : processes_) {
      if (random_.chance(conduct.attaches)) {
        meter.remove_process(p.id);
        meter.add_process(p.id);
      }
      const Nanos worked = from_seconds(seconds(by / processes_.size()) * conduct.load);
      used += worked;
      p.unaccounted += worked;
      p.reported += from_seconds(seconds(worked) * conduct.reported);
      const Nanos expected = Millis(random_.chance(conduct.in_flight) ? random_.below(300) : 0);
      meter.report(p.id, words(p.reported, now, expected), at(now));
    }
    const auto reading = meter.poll(at(now), random_.chance(0.5));
    EXPECT_GE(reading->busy, Nanos(0));
    EXPECT_LE(reading->seen_until, at(now));
    charged += reading->busy;
  }

  Random random_;
  std::vector<Process> processes_{{kProcess}};
};

TEST(CudaMeterProperty, AConfirmedClientGainsTheMarginOnceWhateverItReports) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Client client(seed);
    for (int i = 0; i < 10 && !client.meter.confirmed(); ++i) client.live({0.25, 1, 0.5});
    EXPECT_TRUE(client.meter.confirmed());
    client.used = client.charged = client.slack = Nanos(0);
    const auto perhaps = [&](double chance, double value) {
      return random.chance(chance) ? value : 0;
    };
    for (int i = 0; i < 8; ++i) {
      client.live({perhaps(0.7, random.uniform()), perhaps(0.5, random.uniform()),
                   perhaps(0.3, 0.5), perhaps(0.2, 0.1), perhaps(0.3, 0.02)});
      EXPECT_GE(client.charged, client.used - client.slack - CudaMeter::kMargin);
      EXPECT_LE(client.charged, client.now);
    }
  }
}

}  // namespace
}  // namespace sluice::node
