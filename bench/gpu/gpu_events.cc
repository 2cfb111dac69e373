// gpu_events: the cost and accuracy of the meter's means: a timing event's record and query, and
// the time between two of them around a kernel of known length. Beside it a word that the device
// writes into the host's memory (cuStreamWriteValue64), which would show progress without a query.
// Alone, and with --neighbours N other processes that keep the device busy: run it with and without
// MPS.
//
//   gpu_events [--neighbours N] [--json FILE]
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <vector>

#include "bench/gpu/gpu.h"
#include "bench/report.h"

namespace sluice::bench {
namespace {

constexpr int kRounds = 100;
constexpr int kBatch = 64;  // calls a timing
constexpr uint64_t kKernelNs = 100'000;

// Processes with contexts of their own that launch without end; they end with this object.
class Neighbours {
 public:
  explicit Neighbours(int count) {
    for (int i = 0; i < count; ++i) {
      int ready[2];
      if (pipe(ready) != 0) std::exit(1);
      pids_.push_back(fork());
      if (pids_.back() == 0) keep_busy(ready[1]);
      close(ready[1]);
      char one = 0;
      if (read(ready[0], &one, 1) != 1) std::exit(1);
      close(ready[0]);
    }
  }
  ~Neighbours() {
    for (const pid_t pid : pids_) kill(pid, SIGKILL);
    for (const pid_t pid : pids_) waitpid(pid, nullptr, 0);
  }

 private:
  [[noreturn]] static void keep_busy(int ready) {
    Gpu gpu;
    const CUfunction kernel = gpu.kernel(kKernelNs);
    if (write(ready, "", 1) != 1) _exit(1);
    for (;;) {
      for (int i = 0; i < kBatch; ++i) gpu.launch(kernel);
      GPU_CHECK(cuCtxSynchronize());
      if (getppid() == 1) _exit(0);
    }
  }
  std::vector<pid_t> pids_;
};

// Returns the ns per call; queued work is waited for between the timings.
Samples per_call(const std::function<void()>& call) {
  std::vector<double> ns;
  for (int round = 0; round < kRounds; ++round) {
    ns.push_back(ns_each(kBatch, call));
    GPU_CHECK(cuCtxSynchronize());
  }
  return summarise(ns);
}

void costs(Report& report, Gpu& gpu) {
  const CUstream stream = Gpu::stream();
  const CUfunction empty = gpu.kernel(0);
  const CUevent event = Gpu::event();
  const Samples launch = per_call([&] { gpu.launch(empty, stream); });
  const Samples record = per_call([&] { GPU_CHECK(cuEventRecord(event, stream)); });
  const Samples query = per_call([&] { GPU_CHECK(cuEventQuery(event)); });
  CUdevice device = 0;
  const Samples context = per_call([&] { GPU_CHECK(cuCtxGetDevice(&device)); });
  report.add(Row("launch of a kernel that does nothing", launch.p50, "ns").of(launch));
  const auto beside_launch = [&](const char* what, const Samples& s) {
    report.add(Row(what, s.p50, "ns").beside("the launch", launch.p50).of(s));
  };
  beside_launch("cuEventRecord, timing", record);
  beside_launch("cuEventQuery, done", query);
  beside_launch("cuCtxGetDevice", context);
}

// The distance of the events from the time of a kernel of known length: alone their error; with
// neighbours their error and the wait for the device.
void accuracy(Report& report, Gpu& gpu) {
  const CUstream stream = Gpu::stream();
  const CUfunction kernel = gpu.kernel(kKernelNs);
  const CUevent start = Gpu::event(), end = Gpu::event();
  std::vector<double> us;
  for (int round = 0; round < kRounds; ++round) {
    GPU_CHECK(cuEventRecord(start, stream));
    gpu.launch(kernel, stream);
    GPU_CHECK(cuEventRecord(end, stream));
    GPU_CHECK(cuEventSynchronize(end));
    float ms = 0;
    GPU_CHECK(cuEventElapsedTime(&ms, start, end));
    us.push_back(1000.0 * ms);
  }
  const Samples s = summarise(us);
  report.add(Row("between events around a kernel of 100 us", s.p50, "us")
                 .beside("its length", kKernelNs / 1000.0)
                 .of(s));
  report.add(Row("the same, p99", s.p99, "us").beside("its length", kKernelNs / 1000.0).of(s));
}

// A shared page like the permit's: host memory of this process, registered with the device.
void progress(Report& report) {
  constexpr size_t kPage = 4096;
  const int file = memfd_create("progress", 0);
  if (file < 0 || ftruncate(file, kPage) != 0) return report.fail("memfd");
  void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CUdeviceptr address = 0;
  CUresult result = cuMemHostRegister(page, kPage, CU_MEMHOSTREGISTER_DEVICEMAP);
  if (result == CUDA_SUCCESS) result = cuMemHostGetDevicePointer(&address, page, 0);
  const CUstream stream = Gpu::stream();
  if (result == CUDA_SUCCESS) result = cuStreamWriteValue64(stream, address, 1, 0);
  if (result != CUDA_SUCCESS)
    return report.note("a word written into shared memory: " + word_for(result));
  GPU_CHECK(cuCtxSynchronize());
  uint64_t count = 1;
  const Samples write =
      per_call([&] { GPU_CHECK(cuStreamWriteValue64(stream, address, ++count, 0)); });
  if (__atomic_load_n(static_cast<uint64_t*>(page), __ATOMIC_ACQUIRE) != count)
    report.fail("the word is not what was written last");
  const CUevent event = Gpu::event();
  const Samples record = per_call([&] { GPU_CHECK(cuEventRecord(event, stream)); });
  report.add(Row("cuStreamWriteValue64 to a shared page", write.p50, "ns")
                 .beside("cuEventRecord", record.p50)
                 .of(write));
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  Report report("gpu_events", argc, argv);
  const int count = int_argument(argc, argv, "--neighbours", 0);
  const Neighbours neighbours(count);  // before this process has a context
  Gpu gpu;
  report.note(gpu.name() + ", " + std::to_string(count) + " neighbours");
  costs(report, gpu);
  accuracy(report, gpu);
  progress(report);
  return report.finish();
}
