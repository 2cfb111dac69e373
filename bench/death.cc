// death: from the SIGKILL of a program that holds a GPU until another runs on it, by the device's
// own account (gpu_bed.h). The dead program's queued work runs on, as on the emulated device.
//
//   bench_death [--times N] [--json FILE]
#include <signal.h>

#include <cstdio>
#include <string>

#include "bench/report.h"
#include "tests/support/gpu_bed.h"

namespace sluice::bench {
namespace {

constexpr int kTries = 10'000;
constexpr Nanos kGoal = Millis(5);

// Kills the first while it holds and works; ms until the second works. Below 0: the first never
// held, or the second did not run.
double one(GpuBed& bed, policy::ClientId heir, const GpuProgram& program, Clock& clock) {
  const policy::ClientId victim = bed.start(program, 500, 500);
  bed.works(victim, Millis(40));
  bool held = false;
  for (int i = 0; i < kTries && !held; ++i) {
    const Nanos before = bed.used(victim);
    nap(Micros(200));
    held = bed.state(victim).granted && !bed.state(heir).granted && bed.used(victim) > before;
  }
  const Time killed = clock.now();
  kill(bed.pid(victim), SIGKILL);
  std::optional<Time> began;
  for (int i = 0; i < kTries && !began; ++i) {
    nap(Millis(1));
    began = bed.began_after(heir, killed);
  }
  bed.stop(victim);
  return began && held ? millis(*began - killed) : -1;
}

void run(Report& report, const std::string& name, const GpuProgram& program, int times,
         Nanos goal) {
  SteadyClock clock;
  GpuBed bed;
  const policy::ClientId heir = bed.start({.kernel = Micros(10)}, 500, 1000);
  bed.works(heir, Millis(10));
  std::vector<double> ms;
  for (int i = 0; i < times; ++i) {
    ms.push_back(one(bed, heir, program, clock));
    if (ms.back() < 0) report.fail(name + ": the victim did not hold, or the other did not run");
  }
  const Samples s = summarise(ms);
  report.add(Row(name + ", p50", s.p50, "ms").of(s).at_most(millis(goal)));
  report.add(Row(name + ", p99", s.p99, "ms").of(s).at_most(millis(goal)));
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice;
  using namespace sluice::bench;
  Report report("death", argc, argv);
  const int times = std::max(int_argument(argc, argv, "--times", 100), 2);
  run(report, "10 us kernels", {.kernel = Micros(10)}, times, kGoal);
  run(report, "20 ms kernels, of which one may be running", {.kernel = Millis(20)}, times,
      Millis(20) + kGoal);
  report.note("the other requests 50 % and may use all; " + GpuBed::device());
  return report.finish();
}
