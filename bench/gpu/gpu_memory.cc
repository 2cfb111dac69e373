// gpu_memory: what the driver takes of the device for what is asked of it: small allocations,
// arrays, a context; how pools grow, and whether a pool may be asked while a stream captures. What
// the hook charges for them rests on it (docs/design/cuda.md, memory).
//
//   gpu_memory [--json FILE]
#include <vector>

#include "bench/gpu/gpu.h"
#include "bench/report.h"

namespace sluice::bench {
namespace {

constexpr size_t kKib = 1024, kMib = 1024 * kKib;

size_t used() {
  size_t free_bytes = 0, total = 0;
  GPU_CHECK(cuMemGetInfo(&free_bytes, &total));
  return total - free_bytes;
}

// Enough of them that the driver's blocks, of whatever size, come to more than one.
void plain(Report& report, size_t bytes) {
  const size_t count = bytes < kMib ? 8 * kMib / std::max<size_t>(bytes, 2 * kKib) : 16;
  const size_t before = used();
  std::vector<CUdeviceptr> all(count);
  for (CUdeviceptr& one : all) GPU_CHECK(cuMemAlloc(&one, bytes));
  const size_t taken = used() - before;
  for (const CUdeviceptr one : all) GPU_CHECK(cuMemFree(one));
  report.add(Row("of " + std::to_string(count) + " allocations, each",
                 static_cast<double>(taken) / static_cast<double>(count), "bytes")
                 .beside("asked for", static_cast<double>(bytes)));
}

void array(Report& report, size_t width, size_t height) {
  constexpr size_t kCount = 64;
  CUDA_ARRAY_DESCRIPTOR shape{};
  shape.Width = width;
  shape.Height = height;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  std::vector<CUarray> all(kCount);
  const size_t before = used();
  for (CUarray& one : all) {
    const CUresult result = cuArrayCreate(&one, &shape);
    if (result != CUDA_SUCCESS) return report.note("an array: " + word_for(result));
  }
  const size_t taken = used() - before;
  for (CUarray one : all) GPU_CHECK(cuArrayDestroy(one));
  const std::string name =
      "an array of " + std::to_string(width) + " x " + std::to_string(height) + " floats";
  report.add(Row(name, static_cast<double>(taken) / kCount, "bytes")
                 .beside("its elements", static_cast<double>(width * height * sizeof(float))));
}

uint64_t reserved(CUmemoryPool pool) {
  uint64_t bytes = 0;
  GPU_CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
  return bytes;
}

void pools(Report& report, const Gpu& gpu) {
  const CUstream stream = Gpu::stream();
  CUmemoryPool pool = nullptr;
  GPU_CHECK(cuDeviceGetDefaultMemPool(&pool, gpu.device()));
  std::string line = "a pool has reserved (MiB), as pieces of 1, 1, 30, 1, 100 and 1 are taken:";
  std::vector<CUdeviceptr> all;
  for (const size_t mib : {1, 1, 30, 1, 100, 1}) {
    GPU_CHECK(cuMemAllocAsync(&all.emplace_back(), mib * kMib, stream));
    line += " " + std::to_string(reserved(pool) / kMib);
  }
  GPU_CHECK(cuStreamSynchronize(stream));
  line += "; used on the device meanwhile: " + std::to_string(used() / kMib);
  for (const CUdeviceptr one : all) GPU_CHECK(cuMemFreeAsync(one, stream));
  GPU_CHECK(cuStreamSynchronize(stream));
  report.note(line + "; freed: " + std::to_string(reserved(pool) / kMib));
}

void asked_while_capturing(Report& report, const Gpu& gpu) {
  const CUstream stream = Gpu::stream();
  CUmemoryPool pool = nullptr;
  CUgraph graph = nullptr;
  uint64_t bytes = 0;
  GPU_CHECK(cuDeviceGetDefaultMemPool(&pool, gpu.device()));
  for (const CUstreamCaptureMode mode :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
    GPU_CHECK(cuStreamBeginCapture(stream, mode));
    const CUresult asked =
        cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes);
    const CUresult ended = cuStreamEndCapture(stream, &graph);
    report.note("a pool's attribute while a stream captures (" +
                std::string(mode == CU_STREAM_CAPTURE_MODE_GLOBAL ? "global" : "relaxed") +
                "): " + word_for(asked) + "; the capture's end: " + word_for(ended));
    if (ended == CUDA_SUCCESS) GPU_CHECK(cuGraphDestroy(graph));
  }
}

// Beside the first, which this process has already; that one, and its libraries, NVML tells.
void second_context(Report& report, const Gpu& gpu) {
  CUcontext second = nullptr;
  const size_t before = used();
#if CUDA_VERSION >= 13000
  const CUresult result = cuCtxCreate(&second, nullptr, 0, gpu.device());
#else
  const CUresult result = cuCtxCreate(&second, 0, gpu.device());
#endif
  if (result != CUDA_SUCCESS) return report.note("a second context: " + word_for(result));
  report.add(Row("a second context", static_cast<double>(used() - before) / kMib, "MiB"));
  GPU_CHECK(cuCtxDestroy(second));
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  Report report("gpu_memory", argc, argv);
  const Gpu gpu;
  for (const size_t bytes : {size_t{1}, size_t{512}, 4 * kKib, 100 * kKib, 700 * kKib, kMib,
                             kMib + 1, 2 * kMib, 3 * kMib, 20 * kMib})
    plain(report, bytes);
  array(report, 100, 100);
  array(report, 1000, 1000);
  array(report, 16, 1);
  pools(report, gpu);
  asked_while_capturing(report, gpu);
  second_context(report, gpu);
  return report.finish();
}
