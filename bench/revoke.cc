// revoke: from a revocation until the device has no more work of the program, by the device's own
// account (gpu_bed.h). The program is unmodified, runs under the preloaded hook, and launches as
// fast as it may; the wait is for its queued work.
//
//   bench_revoke [--times N] [--json FILE]
#include <algorithm>
#include <cstdio>
#include <string>

#include "base/random.h"
#include "bench/report.h"
#include "tests/support/gpu_bed.h"

namespace sluice::bench {
namespace {

// Grants every client that wants to run, except one whose request is 0, whose permit it revokes.
class OnOff : public policy::Arbiter {
 public:
  Result<void> admit(const policy::ShareClient& client, Time) override {
    id_ = client.id;
    on_ = client.quota.request > kNone;
    return {};
  }
  void remove(policy::ClientId, Time) override {}
  void want(policy::ClientId, bool wanting, Time) override { wanting_ = wanting; }
  void charge(policy::ClientId, Nanos, Time, Time) override {}
  void drained(policy::ClientId, Time) override { held_ = false; }
  policy::Permits step(Time now) override {
    policy::Permits permits;
    if (held_ && !on_) permits.revoke.push_back(id_);
    if (!held_ && on_ && wanting_) permits.grant.push_back({id_, Seconds(10), now + Seconds(10)});
    held_ = on_ && (held_ || wanting_);
    permits.next = now + Millis(100);
    return permits;
  }
  std::string_view name() const override { return "on-off"; }

 private:
  policy::ClientId id_ = 0;
  bool on_ = false, wanting_ = false, held_ = false;
};

void run(Report& report, const std::string& name, const GpuProgram& program, Nanos longest,
         int times) {
  SteadyClock clock;
  GpuBed bed(std::make_unique<OnOff>());
  const policy::ClientId tenant = bed.start(program, 1000, 1000);
  if (!bed.works(tenant, Nanos(1))) return report.fail(name + ": it did not work");
  Random random(1);
  std::vector<double> ms;
  for (int i = 0; i < times; ++i) {
    const Nanos before = bed.used(tenant);
    nap(Millis(20) + Micros(random.between(0, 20'000)) + longest);
    const bool worked = bed.used(tenant) > before;
    const Time revoked = clock.now();
    bed.resize(tenant, 0, 1000);
    nap(Millis(10) + 2 * longest);
    const std::optional<Time> quiet = bed.last_end(tenant);
    bed.resize(tenant, 1000, 1000);
    if (worked && quiet) ms.push_back(std::max(millis(*quiet - revoked), 0.0));
  }
  const Samples s = summarise(ms);
  if (s.n < times / 2 || !bed.attached(tenant))
    report.fail(name + ": it did not work, or was not held");
  const double bound = std::max(1.0, millis(longest));
  report.add(Row(name + ", p50", s.p50, "ms").of(s).at_most(bound));
  report.add(Row(name + ", p99", s.p99, "ms").of(s).at_most(bound));
  report.add(Row(name + ", worst", s.max, "ms").of(s));
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice;
  using namespace sluice::bench;
  Report report("revoke", argc, argv);
  const int times = std::max(int_argument(argc, argv, "--times", 200), 2);
  run(report, "10 us kernels", {.kernel = Micros(10)}, Micros(10), times);
  run(report, "10 us kernels in 4 streams", {.shape = "streams", .kernel = Micros(10)}, Micros(10),
      times);
  run(report, "graphs of 20 x 10 us", {.shape = "graph", .kernel = Micros(10)}, Micros(200), times);
  run(report, "20 ms kernels", {.kernel = Millis(20)}, Millis(20), times);
  report.note("the program queues 10 ms of work at a time, then waits for it; " + GpuBed::device());
  return report.finish();
}
