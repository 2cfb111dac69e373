// Plays a recorded trace through the driver's calls: with the program's libcuda.so.1, which is the
// emulated one, alone or behind the hook.
//
// One thread, which makes the current context's streams, graphs and memory once. REQUIRES: a
// current context, and a trace that read_trace accepted.
#pragma once

#include <vector>

#include "abi/cuda_abi.h"
#include "base/clock.h"
#include "tests/emulator/launch_trace.h"

namespace sluice::emulator {

class TracePlayer {
 public:
  // Gaps: the host takes the recorded time between its calls (spinning, as the recorded host did);
  // else it calls as fast as it can.
  enum class Gaps { kKept, kNone };

  // The first call that failed is in result().
  TracePlayer(const LaunchTrace& trace, const Clock& clock);
  CUresult play(Gaps gaps);
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
