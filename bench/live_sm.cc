// live_sm: what the hook does of its own where a program's SMs may change while it runs
// (docs/design/green-contexts.md), over a driver whose calls do nothing: a launch on all SMs, one
// on a part of them, and the launch that finds them changed. What a real driver takes for the two
// records and two waits of a launch, and a device for their order, is for bench/gpu to say.
#include <string>
#include <vector>

#include "bench/hooked_driver.h"
#include "bench/report.h"
#include "bench/whole_device.h"
#include "wire/permit.h"

namespace sluice::bench {
namespace {

constexpr int kRounds = 200, kBatch = 2000;

// ns for so many launches.
uint64_t time_of(Launch launch, int times) {
  const uint64_t start = sluice_clock(CLOCK_MONOTONIC);
  for (int i = 0; i < times; ++i) launch_with(launch);
  return sluice_clock(CLOCK_MONOTONIC) - start;
}

// Per launch, beyond the bare one of the same round.
void added(Report& report, const std::string& what, Launch hooked, Launch bare) {
  std::vector<double> ns;
  for (int round = 0; round < kRounds; ++round) {
    const auto with = static_cast<double>(time_of(hooked, kBatch));
    ns.push_back((with - static_cast<double>(time_of(bare, kBatch))) / kBatch);
  }
  const Samples s = summarise(ns);
  report.add(Row("added per launch " + what + ", p50", s.p50, "ns").of(s));
}

void changes(Report& report, WholeDevice& device, Launch hooked) {
  std::vector<double> us;
  for (int round = 0; round < kRounds; ++round) {
    device.resize({round % 2 == 0 ? 250 : 500});
    us.push_back(static_cast<double>(time_of(hooked, 1)) / 1e3);
    time_of(hooked, 10);
  }
  const Samples s = summarise(us);
  report.add(Row("the launch that finds its SMs changed, p50", s.p50, "us").of(s));
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  Report report("live_sm", argc, argv);
  setenv("SLUICE_LIVE_SM", "1", 1);
  WholeDevice device;
  const HookedDriver cuda;
  const auto bare = function<Launch>(cuda.driver, "cuLaunchKernel");
  const auto hooked = function<Launch>(cuda.hook, "cuLaunchKernel");
  added(report, "on all SMs", hooked, bare);
  device.resize({500});
  added(report, "on half of them", hooked, bare);
  changes(report, device, hooked);
  const unsigned long wanted = 4ul * kRounds * kBatch + 11ul * kRounds;
  if (cuda.launched() != wanted) report.fail("a launch did not reach the driver once");
  if (device.processes() != 1) report.fail("the hook did not attach");
  return report.finish();
}
