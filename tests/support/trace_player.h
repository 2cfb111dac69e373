// Plays a recorded trace through the driver's calls: with the program's libcuda.so.1, which is the
// emulated one, alone or behind the hook.
//
// One thread, which makes the current context's streams, graphs and memory once. REQUIRES: a
// current context, and a trace that read_trace accepted.
#pragma once

#include <span>
#include <vector>

#include "abi/cuda_abi.h"
#include "base/clock.h"
#include "tests/emulator/launch_trace.h"

namespace sluice::emulator {

// Its steps up to each wait for everything.
std::vector<std::span<const TraceStep>> iterations_of(const LaunchTrace& trace);
// Kernels and gaps take so many times as long.
void slow_down(LaunchTrace& trace, unsigned times);

class TracePlayer {
 public:
  // Gaps: the host takes the recorded time between its calls, spinning as the recorded host did, or
  // asleep (kSlept: short ones together); else it calls as fast as it can.
  enum class Gaps { kKept, kSlept, kNone };

  // The first call that failed is in result().
  TracePlayer(const LaunchTrace& trace, const Clock& clock);
  CUresult play(Gaps gaps) { return play(trace_.steps, gaps); }
  // Some of its steps; from a thread with the same context.
  CUresult play(std::span<const TraceStep> steps, Gaps gaps);
  CUresult result() const { return result_; }

 private:
  bool did(CUresult result);
  void make_graph(const std::vector<std::uint32_t>& kernels);
  CUresult launch(std::uint32_t kernel, CUstream stream);
  CUresult take(const TraceStep& step);

  const LaunchTrace& trace_;
  const Clock& clock_;
  CUresult result_ = CUDA_SUCCESS;
  std::vector<CUfunction> kernels_;
  std::vector<CUgraphExec> graphs_;
  std::vector<CUstream> streams_;
  CUdeviceptr device_memory_ = 0;
  void* host_memory_ = nullptr;
};

}  // namespace sluice::emulator
