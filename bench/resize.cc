// resize: a busy client's quota goes up and down. From the call's return until the client acts by
// the new permit: passes the gate under the larger one, or comes to the gate again under the
// smaller one. And the share it uses over the next 500 ms.
//
//   bench_resize [--times N] [--json FILE]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>

#include "base/random.h"
#include "bench/report.h"
#include "bench/timing.h"
#include "tests/support/testbed.h"

namespace sluice::bench {
namespace {

constexpr int kLow = 200, kHigh = 600;  // permille
constexpr Nanos kAfter = Millis(500);

bool is_blocked(const Progress& p) {
  return p.asked_ns > p.passed_ns;
}

// Until the client passes the gate, or also comes to it, after `since`.
double until_us(const Progress& p, uint64_t since, bool passes) {
  for (;;) {
    const uint64_t asked = p.asked_ns, passed = p.passed_ns;
    const uint64_t at = !passes && asked > since ? asked : passed;
    if (at > since) return static_cast<double>(at - since) / 1000;
  }
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice;
  using namespace sluice::bench;
  Report report("resize", argc, argv);
  const int times = std::max(int_argument(argc, argv, "--times", 60), 2);
  Testbed bed({});
  const policy::ClientId client = bed.start(Load::kGreedy, kLow, kLow);
  bed.start(Load::kGreedy, 1000 - kHigh, 1000, kHigh);  // what it is taken from
  (void)used_share(bed, client, kAfter);

  Random random(1);
  std::vector<double> call_us, more_us, less_us, error;
  for (int i = 0; i < times; ++i) {
    const bool more = i % 2 == 0;
    const int quota = more ? kHigh : kLow;
    (void)used_share(bed, client, Micros(random.between(0, 40'000)));  // any phase of the window
    const uint64_t start = now_ns();
    const Result<void> resized = bed.resize(client, quota, quota);
    const uint64_t returned = now_ns();
    if (!resized) report.fail(resized.error().message);
    call_us.push_back(static_cast<double>(returned - start) / 1000);
    // A client that stands blocked and gets less shows nothing: it goes on standing there.
    if (more || !is_blocked(bed.progress(client)))
      (more ? more_us : less_us).push_back(until_us(bed.progress(client), returned, more));
    error.push_back(std::abs(100 * used_share(bed, client, kAfter) - quota / 10.0));
  }
  if (bed.progress(client).gate != SLUICE_GATE_ATTACHED) report.fail("not attached");

  const auto add = [&](const char* what, const std::vector<double>& us) {
    const Samples s = summarise(us);
    report.add(Row(std::string(what) + ", p50", s.p50 / 1000, "ms").of(s).at_most(1));
    report.add(Row(std::string(what) + ", p99", s.p99 / 1000, "ms").of(s).at_most(5));
  };
  const Samples call = summarise(call_us), e = summarise(error);
  report.add(Row("the call itself, p50", call.p50 / 1000, "ms").of(call));
  report.add(Row("the call itself, p99", call.p99 / 1000, "ms").of(call));
  add("20 % -> 60 %: return -> passes the gate", more_us);
  if (less_us.empty()) report.fail("the client was blocked at every shrink");
  add("60 % -> 20 %: return -> next decision", less_us);
  report.add(Row("error of the share over the next 500 ms, p50", e.p50, "%").of(e).at_most(2));
  report.add(Row("error of the share over the next 500 ms, p99", e.p99, "%").of(e).at_most(2));
  report.note(bed.enforcement());
  return report.finish();
}
