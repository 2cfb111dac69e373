// An unmodified CUDA program that does a bit of everything for ever, on one thread: allocates
// memory of each kind, launches kernels and graphs, copies, waits, and frees its memory. A round
// takes about four milliseconds of the device.
#include <array>

#include "tests/support/cuda_program.h"

using namespace sluice;

namespace {

constexpr size_t kMib = size_t{1} << 20;
constexpr size_t kLarge = 16 * kMib;  // more than a slice of 64 MiB keeps ready
constexpr unsigned kSms = 132;        // a kernel fills the device

struct Worker {
  const CUfunction tenth = function(load_module("kernel tenth ns=100000\n"), "tenth");
  const CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
  const CUgraphExec graph = graph_of(stream, [this] { launch(); });
  const CUgraphExec allocating = graph_of(stream, [this] {
    CUdeviceptr temporary = 0;
    need(cuMemAllocAsync(&temporary, 2 * kMib, stream));
    launch();
    need(cuMemFreeAsync(temporary, stream));
  });

  void launch() const {
    need(cuLaunchKernel(tenth, kSms, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  }

  void compute(CUdeviceptr from, CUdeviceptr to) const {
    for (int i = 0; i < 20; ++i) launch();
    need(cuMemcpyDtoDAsync_v2(to, from, kMib, stream));
    for (int i = 0; i < 10; ++i) need(cuGraphLaunch(graph, stream));
    need(cuGraphLaunch(allocating, stream));
    need(cuStreamSynchronize(stream));
    for (int i = 0; i < 5; ++i) {
      launch();
      need(cuStreamSynchronize(stream));
    }
  }

  void live_a_round() const {
    CUdeviceptr plain = 0, pooled = 0, mapped = 0;
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    need(cuMemAlloc_v2(&plain, kLarge));
    need(cuMemAllocAsync(&pooled, kLarge, stream));
    need(cuMemCreate(&handle, 2 * kMib, &properties, 0));
    need(cuMemAddressReserve(&mapped, 2 * kMib, 0, 0, 0));
    need(cuMemMap(mapped, 2 * kMib, 0, handle, 0));
    need(cuMemRelease(handle));
    compute(plain, pooled);
    need(cuMemUnmap(mapped, 2 * kMib));
    need(cuMemAddressFree(mapped, 2 * kMib));
    need(cuMemFreeAsync(pooled, stream));
    need(cuMemFree_v2(plain));
  }
};

}  // namespace

int main() {
  const Worker worker;
  for (;;) worker.live_a_round();
}
