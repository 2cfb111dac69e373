// gpu_memory: what the driver takes of the device for requested memory: small allocations, arrays,
// a context; how pools grow, and whether a pool may be queried while a stream captures; when graphs
// that allocate have their memory, and how much of it they share. The hook's charges for them rest
// on it (docs/design/cuda.md, memory).
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

// Enough of them to need more than one of the driver's blocks, of any size.
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

// A graph of two allocations, the second after the end of the first, and its instance.
struct Allocating {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
};
Allocating allocating(CUstream stream, size_t bytes) {
  Allocating made;
  GPU_CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  for (int i = 0; i < 2; ++i) {
    CUdeviceptr one = 0;
    GPU_CHECK(cuMemAllocAsync(&one, bytes, stream));
    GPU_CHECK(cuMemsetD8Async(one, 0, bytes, stream));
    GPU_CHECK(cuMemFreeAsync(one, stream));
  }
  GPU_CHECK(cuStreamEndCapture(stream, &made.graph));
  GPU_CHECK(cuGraphInstantiateWithFlags(&made.exec, made.graph, 0));
  return made;
}

std::string of_graphs(const Gpu& gpu) {
  uint64_t reserved = 0, in_use = 0;
  GPU_CHECK(cuDeviceGetGraphMemAttribute(gpu.device(), CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
                                         &reserved));
  GPU_CHECK(
      cuDeviceGetGraphMemAttribute(gpu.device(), CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &in_use));
  return std::to_string(reserved / kMib) + " (" + std::to_string(in_use / kMib) + " in use)";
}

void graphs(Report& report, const Gpu& gpu) {
  const CUstream stream = Gpu::stream(), other = Gpu::stream();
  const Allocating first = allocating(stream, 64 * kMib), second = allocating(stream, 64 * kMib);
  std::string line =
      "graphs have reserved (MiB), of two with 64 and again 64 each, instantiated: " +
      of_graphs(gpu);
  const auto after = [&](const std::string& what) { line += "; " + what + ": " + of_graphs(gpu); };
  const auto launch = [&](const Allocating& one, CUstream in, const std::string& what) {
    GPU_CHECK(cuGraphLaunch(one.exec, in));
    after(what);
  };
  GPU_CHECK(cuGraphUpload(first.exec, stream));
  after("one uploaded");
  launch(first, stream, "launched");
  launch(first, stream, "again");
  launch(second, stream, "the other, behind it");
  launch(second, other, "the other, beside it");
  GPU_CHECK(cuStreamSynchronize(stream));
  GPU_CHECK(cuStreamSynchronize(other));
  after("when all have run");
  CUgraphExec twice = nullptr;
  CUgraph clone = nullptr;
  const CUresult again = cuGraphInstantiateWithFlags(&twice, first.graph, 0);
  const CUresult cloned = cuGraphClone(&clone, first.graph);
  for (const Allocating& one : {first, second}) {
    GPU_CHECK(cuGraphExecDestroy(one.exec));
    GPU_CHECK(cuGraphDestroy(one.graph));
  }
  after("destroyed");
  GPU_CHECK(cuDeviceGraphMemTrim(gpu.device()));
  after("trimmed");
  report.note(line);
  report.note("a second instance of a graph that allocates: " + word_for(again) +
              "; a clone: " + word_for(cloned));
}

// A second context beside this process's first; NVML reports the first, and its libraries.
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
  graphs(report, gpu);
  second_context(report, gpu);
  return report.finish();
}
