// Programs of a simulated GPU (gpu_simulation.h): what a host asks of the device, and when. Made of
// recorded launches, or of a few numbers. Plain values.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "device_model/device_model.h"

namespace sluice::emulator {

struct HostLaunch {
  Nanos gap{0};  // of the host, since its last call
  std::vector<Kernel> kernels;
  Nanos cost{0};  // of all of them, alone on the SMs that the program has
};
using HostRun = std::vector<HostLaunch>;  // what one iteration launches

struct GpuProgram {
  std::vector<HostRun> runs;  // an iteration is one of them, by chance
  // Iterations come as requests, so many a second (Poisson); 0: back to back.
  double requests_per_second = 0;
  bool endless = false;  // no iteration ever ends: it waits for the device only at its bound
  Nanos work = Nanos::max(), pause{0};  // of an endless one: launches so long, rests so long
  // A misreporting client: what it reports of each unit's cost, and of its own time, of the truth.
  double reported_cost = 1, reported_host = 1;
  double reported_longest = 1;         // of its longest unit
  bool never_ends_iterations = false;  // by what it reports
};

// The programs' host takes so long for a call, to wait for work that has ended, and to go on.
inline constexpr Nanos kCall = Nanos(1'200);

// Sets the costs to those on so many SMs.
void set_costs(GpuProgram& program, std::uint32_t sms);

// The iterations of a program recorded on an H200 (bench/data): what lies between two waits for
// everything. The first, which is colder, is left out. python: of a graph, what the interpreter
// does besides. longer: of each kernel, for a larger batch.
std::vector<HostRun> recorded(const std::string& set, const std::string& program,
                              Nanos python = Nanos(0), double longer = 1);
// A training step of BERT, synthetic: of the recorded forward run at batch 1, kernels four times as
// long and sixteen times as wide; three such passes (one forward, two back) and an optimiser's.
HostRun synthetic_training_step(const HostRun& forward);
// Kernels of one length on the whole device, without end.
GpuProgram greedy_program(Nanos kernel, Nanos launch = Micros(4));
// `load` of what one host can serve.
GpuProgram serving_program(std::vector<HostRun> runs, double load);
GpuProgram loop_program(std::vector<HostRun> runs);

}  // namespace sluice::emulator
