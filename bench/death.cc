// death: from the SIGKILL of a program that holds a GPU until another runs on it, by the device
// itself (gpu_bed.h). What the dead program had queued runs on, as on the emulated device it does.
//
//   bench_death [--times N] [--json FILE]
#include <signal.h>

#include <cstdio>
#include <string>

#include "bench/gpu_bed.h"
#include "bench/report.h"

namespace sluice::bench {
namespace {

constexpr int kTries = 10'000;

// Kills the first while it holds and works; ms until the second works.
double one(GpuBed& bed, policy::ClientId heir, const GpuProgram& program, Clock& clock) {
  const policy::ClientId victim = bed.start(program, 500, 500);
  bed.works(victim, Millis(40));
  for (int i = 0; i < kTries; ++i) {
    const Nanos before = bed.used(victim);
    nap(Micros(200));
    if (bed.state(victim).granted && !bed.state(heir).granted && bed.used(victim) > before) break;
  }
  const Time killed = clock.now();
  kill(bed.pid(victim), SIGKILL);
  std::optional<Time> began;
  for (int i = 0; i < kTries && !began; ++i) {
    nap(Millis(1));
    began = bed.began_after(heir, killed);
  }
  bed.stop(victim);
  return began ? millis(*began - killed) : -1;
}

void run(Report& report, const std::string& name, const GpuProgram& program, int times,
         bool has_goal) {
  SteadyClock clock;
  GpuBed bed;
  const policy::ClientId heir = bed.start({.kernel = Micros(10)}, 500, 1000);
  bed.works(heir, Millis(10));
  std::vector<double> ms;
  for (int i = 0; i < times; ++i) {
    ms.push_back(one(bed, heir, program, clock));
    if (ms.back() < 0) report.fail(name + ": the other did not run");
  }
  const Samples s = summarise(ms);
  Row p50(name + ", p50", s.p50, "ms"), p99(name + ", p99", s.p99, "ms");
  report.add(has_goal ? p50.of(s).at_most(5) : p50.of(s));
  report.add(has_goal ? p99.of(s).at_most(5) : p99.of(s));
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice;
  using namespace sluice::bench;
  Report report("death", argc, argv);
  const int times = std::max(int_argument(argc, argv, "--times", 100), 2);
  run(report, "10 us kernels", {.kernel = Micros(10)}, times, true);
  run(report, "20 ms kernels, of which one may be running", {.kernel = Millis(20)}, times, false);
  report.note("the other requests 50 % and may use all; " + GpuBed::device());
  return report.finish();
}
