// Memory that graphs allocate and free themselves: by nodes, or captured.
#include "driver.h"

namespace conformance {
namespace {
constexpr size_t kBytes = size_t{8} << 20;

std::uint64_t attribute(const Bench& bench, CUgraphMem_attribute which) {
  std::uint64_t value = 0;
  bench.report.result(bench.cu.cuDeviceGetGraphMemAttribute(bench.device, which, &value),
                      CUDA_SUCCESS, "a device says what its graphs have of memory");
  return value;
}
std::uint64_t reserved(const Bench& bench) {
  return attribute(bench, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
}
std::uint64_t used(const Bench& bench) {
  return attribute(bench, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT);
}

// A graph of one allocation, and its instance.
struct Allocating {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
  CUdeviceptr pointer = 0;
};
Allocating allocating(const Bench& bench, unsigned long long flags) {
  const Driver& cu = bench.cu;
  Allocating made;
  CUDA_MEM_ALLOC_NODE_PARAMS wanted{};
  wanted.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, bench.device};
  wanted.bytesize = kBytes;
  cu.cuGraphCreate(&made.graph, 0);
  bench.report.result(cu.cuGraphAddMemAllocNode(&made.node, made.graph, nullptr, 0, &wanted),
                      CUDA_SUCCESS, "a graph takes a node that allocates");
  made.pointer = wanted.dptr;
  cu.cuGraphInstantiateWithFlags(&made.exec, made.graph, flags);
  return made;
}
void destroy(const Driver& cu, const Allocating& made) {
  cu.cuGraphExecDestroy(made.exec);
  cu.cuGraphDestroy(made.graph);
}
}  // namespace

void check_captured_memory(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  const CUstream stream = bench.stream();
  CUdeviceptr pointer = 0;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  report.result(cu.cuMemAllocAsync(&pointer, kBytes, stream), CUDA_SUCCESS,
                "an allocation in a stream is captured");
  report.result(cu.cuMemsetD32Async(pointer, 7, 1, stream), CUDA_SUCCESS, "a set of it too");
  bench.launch(bench.brief, stream);
  report.result(cu.cuMemFreeAsync(pointer, stream), CUDA_SUCCESS, "and so is its end");
  cu.cuStreamEndCapture(stream, &graph);
  CUgraphNode nodes[4] = {};
  size_t count = 4;
  cu.cuGraphGetNodes(graph, nodes, &count);
  report.equal(static_cast<long long>(count), 4, "as nodes");
  int allocations = 0, frees = 0;
  for (size_t i = 0; i < count; ++i) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    cu.cuGraphNodeGetType(nodes[i], &type);
    allocations += type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? 1 : 0;
    frees += type == CU_GRAPH_NODE_TYPE_MEM_FREE ? 1 : 0;
  }
  report.check(allocations == 1 && frees == 1, "of types of their own");

  cu.cuGraphInstantiateWithFlags(&exec, graph, 0);
  for (int i = 0; i < 2; ++i)
    report.result(cu.cuGraphLaunch(exec, stream), CUDA_SUCCESS,
                  "a graph that frees what it allocates is launched again and again");
  cu.cuStreamSynchronize(stream);
  report.check(reserved(bench) >= kBytes, "and what it had is kept for the next launch");
  report.equal(static_cast<long long>(used(bench)), static_cast<long long>(reserved(bench)),
               "all of which counts as in use");
  cu.cuGraphExecDestroy(exec);
  cu.cuGraphDestroy(graph);
  report.result(cu.cuDeviceGraphMemTrim(bench.device), CUDA_SUCCESS, "until it is trimmed");
  report.equal(static_cast<long long>(reserved(bench)), 0, "then nothing is kept");
  report.equal(static_cast<long long>(used(bench)), 0, "nor in use");
  cu.cuStreamDestroy_v2(stream);
}

void check_what_outlives_a_launch(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  const CUstream stream = bench.stream();
  const Allocating made = allocating(bench, 0);
  report.equal(static_cast<long long>(reserved(bench)), 0, "an instance alone has no memory");
  report.result(cu.cuGraphLaunch(made.exec, stream), CUDA_SUCCESS, "a launch allocates");
  report.check(used(bench) >= kBytes && reserved(bench) >= used(bench), "as much as was asked for");
  unsigned out = 0;
  report.result(cu.cuMemsetD32Async(made.pointer, 7, 1, stream), CUDA_SUCCESS,
                "at the address that the node was given");
  report.result(cu.cuMemcpyDtoHAsync_v2(&out, made.pointer, sizeof out, stream), CUDA_SUCCESS,
                "from which others read afterwards");
  cu.cuStreamSynchronize(stream);
  report.equal(out, 7, "what was written");
  report.check(cu.cuGraphLaunch(made.exec, stream) != CUDA_SUCCESS,
               "a graph whose memory nobody has freed is not launched again");
  report.result(cu.cuMemFreeAsync(made.pointer, stream), CUDA_SUCCESS,
                "what a graph has left is freed in a stream");
  report.result(cu.cuGraphLaunch(made.exec, stream), CUDA_SUCCESS, "then it is launched again");
  cu.cuStreamSynchronize(stream);
  report.result(cu.cuMemFree_v2(made.pointer), CUDA_SUCCESS, "or freed at once");
  report.check(used(bench) >= kBytes, "but counts as in use");
  destroy(cu, made);
  cu.cuDeviceGraphMemTrim(bench.device);
  report.equal(static_cast<long long>(used(bench)), 0, "until it is trimmed");
  cu.cuStreamDestroy_v2(stream);
}

void check_what_graphs_refuse(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  const CUstream stream = bench.stream();
  const Allocating made = allocating(bench, 0);
  CUgraphExec second = nullptr;
  CUgraph copy = nullptr;
  report.result(cu.cuGraphInstantiateWithFlags(&second, made.graph, 0), CUDA_ERROR_NOT_SUPPORTED,
                "a graph that allocates has one instance at a time");
  report.result(cu.cuGraphClone(&copy, made.graph), CUDA_ERROR_NOT_SUPPORTED, "and no clones");
  cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  report.check(cu.cuGraphLaunch(made.exec, stream) != CUDA_SUCCESS,
               "its launch is not captured for another graph");
  cu.cuStreamEndCapture(stream, &copy);
  if (copy != nullptr) cu.cuGraphDestroy(copy);
  cu.cuGraphExecDestroy(made.exec);
  report.result(cu.cuGraphInstantiate_v2(&second, made.graph, nullptr, nullptr, 0), CUDA_SUCCESS,
                "another follows one that is destroyed");
  report.result(cu.cuGraphUpload(second, stream), CUDA_SUCCESS, "it is uploaded");
  cu.cuStreamSynchronize(stream);
  report.check(reserved(bench) >= kBytes, "then it has its memory before it is launched");
  cu.cuGraphExecDestroy(second);
  cu.cuGraphDestroy(made.graph);
  cu.cuDeviceGraphMemTrim(bench.device);
  cu.cuStreamDestroy_v2(stream);
}

}  // namespace conformance
