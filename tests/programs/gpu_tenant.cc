// An unmodified CUDA program, for benchmarks (gpu_bed.h):
//
//   gpu_tenant LOAD SHAPE KERNEL_NS HELD_BY SHARE STAMPS
//
//   LOAD     greedy; bursty (30 ms of work, 50 ms of rest, on average); idle; patient: as greedy,
//            but waits for each launch
//   SHAPE    eager: launches into one stream; streams: into four in turn; graph: of 20 kernels;
//            legacy: into the legacy default stream, beside one that waits for it
//   HELD_BY  driver: whatever stands in the driver's place; silent: a client of permits of its own
//            that reports nothing; tokens, feedback: what others do in the driver's place
//   SHARE    in percent, for the last two
//   STAMPS   the file that its kernels are to stamp (kernel_stamps.h); "": the device keeps a log
//
// Each kernel fills the device. Ten milliseconds of work are queued, then waited for. SIGTERM ends
// it between two such pieces of work.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "abi/cuda_abi.h"
#include "base/random.h"
#include "tests/emulator/machine.h"
#include "tests/programs/gpu_rivals.h"
#include "tests/support/kernel_stamps.h"
#include "wire/permit.h"

namespace sluice::bench {
namespace {

constexpr unsigned kThreads = 1024;  // of a block that stamps
constexpr int kGraphKernels = 20;
constexpr int64_t kQueuedNs = 10'000'000;

volatile sig_atomic_t asked_to_end = 0;

void need(CUresult result) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "gpu_tenant: error %d of CUDA's\n", result);
  std::abort();
}

unsigned attribute(CUdevice_attribute which) {
  int value = 0;
  need(cuDeviceGetAttribute(&value, which, 0));
  return static_cast<unsigned>(value);
}

// Returns the device's address of the file's mapped memory.
CUdeviceptr map_for_device(const char* path) {
  constexpr size_t kBytes = kStamps * sizeof(KernelStamp);
  constexpr unsigned kMapped = 2;  // CU_MEMHOSTREGISTER_DEVICEMAP
  const int file = open(path, O_RDWR | O_CLOEXEC);
  void* map = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CUdeviceptr address = 0;
  need(map == MAP_FAILED ? CUDA_ERROR_FILE_NOT_FOUND : cuMemHostRegister_v2(map, kBytes, kMapped));
  need(cuMemHostGetDevicePointer_v2(&address, map, 0));
  return address;
}

class Program {
 public:
  Program(std::string_view shape, int64_t kernel_ns, int64_t queued_ns, const char* stamps)
      : graphs_(shape == "graph"), kernel_ns_(kernel_ns) {
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    need(cuInit(0));
    need(cuDevicePrimaryCtxRetain(&context, 0));
    need(cuCtxSetCurrent(context));
    need(cuModuleLoadData(&module, stamped_kernel(kernel_ns).c_str()));
    need(cuModuleGetFunction(&work_, module, "work"));
    blocks_ = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    if (*stamps != '\0') {
      stamps_ = map_for_device(stamps);
      threads_ = kThreads;
      blocks_ *= attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) / kThreads;
    }
    streams_.resize(shape == "streams" ? 4 : 1);
    for (CUstream& stream : streams_)
      need(cuStreamCreate(&stream, shape == "legacy" ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    if (shape == "legacy") streams_[0] = nullptr;
    if (graphs_) capture();
    const int64_t unit = graphs_ ? kernel_ns * kGraphKernels : kernel_ns;
    batch_ = static_cast<int>(std::max<int64_t>(queued_ns / unit, 1));
  }

  unsigned blocks() const { return graphs_ ? blocks_ * kGraphKernels : blocks_; }

  // Queues work, and waits for it; does not return once it is to end.
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
    if (asked_to_end != 0) std::exit(0);
  }

 private:
  void launch(CUstream stream) {
    void* parameters[] = {&stamps_, &mask_, &kernel_ns_};
    need(cuLaunchKernel(work_, blocks_, 1, 1, threads_, 1, 1, 0, stream, parameters, nullptr));
  }
  void capture() {
    CUgraph graph = nullptr;
    need(cuStreamBeginCapture_v2(streams_[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < kGraphKernels; ++i) launch(streams_[0]);
    need(cuStreamEndCapture(streams_[0], &graph));
    need(cuGraphInstantiateWithFlags(&graph_, graph, 0));
  }

  const bool graphs_;
  int64_t kernel_ns_;
  uint64_t mask_ = kStamps - 1;
  CUdeviceptr stamps_ = 0;
  unsigned blocks_ = 0, threads_ = 1;
  int batch_;
  CUfunction work_ = nullptr;
  std::vector<CUstream> streams_;
  CUgraphExec graph_ = nullptr;
};

// Returns what precedes each launch in the program itself.
std::function<void()> gate_of(std::string_view held_by, int share, unsigned blocks) {
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
  if (load == "greedy" || load == "patient")
    for (;;) program.run(gate);
  program.run(gate);
  if (load == "idle") {
    while (asked_to_end == 0) pause();
    std::exit(0);
  }
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
  if (count != 7) return 2;
  signal(SIGTERM, [](int) { asked_to_end = 1; });
  const std::string_view load = arguments[1];
  Program program(arguments[2], std::atoll(arguments[3]), load == "patient" ? 0 : kQueuedNs,
                  arguments[6]);
  live(load, program, gate_of(arguments[4], std::atoi(arguments[5]), program.blocks()));
}
