// A CUDA program that knows nothing of Sluice, for benchmarks on the emulated device:
//
//   gpu_tenant LOAD SHAPE KERNEL_NS HELD_BY SHARE
//
//   LOAD     greedy; bursty (30 ms of work, 50 ms of rest, on average); idle
//   SHAPE    eager: launches into one stream; streams: into four in turn; graph: of 20 kernels
//   HELD_BY  driver: whatever stands in the driver's place; silent: a client of permits of its own
//            that reports nothing; tokens, feedback: what others do in the driver's place
//   SHARE    in percent, for the last two
//
// Each kernel fills the device. Ten milliseconds of work are queued, then waited for.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "bench/gpu_rivals.h"
#include "emulator/machine.h"
#include "wire/cuda_abi.h"
#include "wire/permit.h"

namespace sluice::bench {
namespace {

constexpr unsigned kBlocks = 132;  // the emulated device's SMs
constexpr int kGraphKernels = 20;
constexpr int64_t kQueuedNs = 10'000'000;

void need(CUresult result) {
  if (result != CUDA_SUCCESS) __builtin_trap();
}

class Program {
 public:
  Program(std::string_view shape, int64_t kernel_ns) : graphs_(shape == "graph") {
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    need(cuInit(0));
    need(cuDevicePrimaryCtxRetain(&context, 0));
    need(cuCtxSetCurrent(context));
    need(cuModuleLoadData(&module, ("kernel work ns=" + std::to_string(kernel_ns)).c_str()));
    need(cuModuleGetFunction(&work_, module, "work"));
    streams_.resize(shape == "streams" ? 4 : 1);
    for (CUstream& stream : streams_) need(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (graphs_) capture();
    const int64_t unit = graphs_ ? kernel_ns * kGraphKernels : kernel_ns;
    batch_ = static_cast<int>(std::max<int64_t>(kQueuedNs / unit, 1));
  }

  unsigned blocks() const { return graphs_ ? kBlocks * kGraphKernels : kBlocks; }

  // Queues work, and waits for it.
  void run(const std::function<void()>& gate) {
    for (int i = 0; i < batch_; ++i) {
      gate();
      CUstream stream = streams_[static_cast<size_t>(i) % streams_.size()];
      if (graphs_)
        need(cuGraphLaunch(graph_, stream));
      else
        launch(stream);
    }
    for (CUstream stream : streams_) need(cuStreamSynchronize(stream));
  }

 private:
  void launch(CUstream stream) {
    need(cuLaunchKernel(work_, kBlocks, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  }
  void capture() {
    CUgraph graph = nullptr;
    need(cuStreamBeginCapture_v2(streams_[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < kGraphKernels; ++i) launch(streams_[0]);
    need(cuStreamEndCapture(streams_[0], &graph));
    need(cuGraphInstantiateWithFlags(&graph_, graph, 0));
  }

  const bool graphs_;
  int batch_;
  CUfunction work_ = nullptr;
  std::vector<CUstream> streams_;
  CUgraphExec graph_ = nullptr;
};

// What stands before each launch in the program itself.
std::function<void()> gate_of(std::string_view held_by, int share, unsigned blocks) {
  if (held_by == "silent") {
    static sluice_gate gate = {getenv("SLUICE_PERMIT_SOCKET"), 0};
    static __thread sluice_thread* mine;
    return [] { sluice_gate_pass(&gate, &mine); };
  }
  if (held_by == "tokens") {
    auto tokens = std::make_shared<BlockTokens>(share);
    return [tokens, blocks] { tokens->take(blocks); };
  }
  if (held_by == "feedback") {
    auto feedback = std::make_shared<UtilisationFeedback>(share);
    return [feedback, blocks] { feedback->take(blocks); };
  }
  return [] {};
}

[[noreturn]] void live(std::string_view load, Program& program, const std::function<void()>& gate) {
  if (load == "greedy")
    for (;;) program.run(gate);
  program.run(gate);
  if (load == "idle")
    for (;;) pause();
  Random random(static_cast<uint64_t>(getpid()));
  for (;;) {
    const auto end =
        sluice_clock(CLOCK_MONOTONIC) + static_cast<uint64_t>(random.exponential(30e6));
    while (sluice_clock(CLOCK_MONOTONIC) < end) program.run(gate);
    usleep(static_cast<useconds_t>(random.exponential(50e3)));
  }
}

}  // namespace
}  // namespace sluice::bench

int main(int count, char** arguments) {
  using namespace sluice::bench;
  if (count != 6) return 2;
  Program program(arguments[2], std::atoll(arguments[3]));
  live(arguments[1], program, gate_of(arguments[4], std::atoi(arguments[5]), program.blocks()));
}
