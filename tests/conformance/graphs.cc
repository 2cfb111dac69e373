// Stream capture and graphs: what a capture takes, what breaks it, and what a graph may become.
#include <thread>
#include <vector>

#include "driver.h"

namespace conformance {
namespace {
CUgraph captured(const Bench& bench, CUstream stream, int kernels) {
  bench.cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  for (int i = 0; i < kernels; ++i) bench.launch(bench.spin, stream);
  CUgraph graph = nullptr;
  bench.cu.cuStreamEndCapture(stream, &graph);
  return graph;
}

std::size_t nodes_of(const Driver& cu, CUgraph graph) {
  std::size_t count = 0;
  cu.cuGraphGetNodes(graph, nullptr, &count);
  return count;
}

// Begins a capture, does `act`, and says with what the capture ends.
template <typename F>
CUresult end_after(const Bench& bench, CUstream stream, CUstreamCaptureMode mode, F&& act) {
  CUgraph graph = nullptr;
  bench.cu.cuStreamBeginCapture_v2(stream, mode);
  bench.launch(bench.brief, stream);
  act();
  const CUresult result = bench.cu.cuStreamEndCapture(stream, &graph);
  if (graph != nullptr) bench.cu.cuGraphDestroy(graph);
  return result;
}
}  // namespace

void check_what_breaks_a_capture(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  const CUstream stream = bench.stream(CU_STREAM_DEFAULT), other = bench.stream(CU_STREAM_DEFAULT);
  const CUevent event = bench.event();
  constexpr auto kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL;
  constexpr auto kLocal = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  constexpr auto kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
  CUresult inside = CUDA_SUCCESS;
  const auto broken = [&](CUstreamCaptureMode mode, CUresult wanted, const std::string& by,
                          auto&& act) {
    const CUresult end = end_after(bench, stream, mode, act);
    report.result(inside, wanted, by + " is refused within a capture");
    report.result(end, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, by + " breaks it");
  };
  broken(kGlobal, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "waiting for the stream",
         [&] { inside = cu.cuStreamSynchronize(stream); });
  broken(kGlobal, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "asking about the stream",
         [&] { inside = cu.cuStreamQuery(stream); });
  broken(kGlobal, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "new memory", [&] {
    CUdeviceptr pointer = 0;
    inside = cu.cuMemAlloc_v2(&pointer, 1);
  });
  broken(kGlobal, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "a launch into the legacy stream",
         [&] { inside = bench.launch(bench.brief, nullptr); });
  broken(kGlobal, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "another thread's question about an event",
         [&] {
           std::thread([&] {
             cu.cuCtxSetCurrent(bench.context);
             inside = cu.cuEventQuery(event);
           }).join();
         });
  broken(kGlobal, CUDA_ERROR_CAPTURED_EVENT, "a question about an event that it captured", [&] {
    cu.cuEventRecord(event, stream);
    inside = cu.cuEventQuery(event);
  });
  report.result(cu.cuEventQuery(event), CUDA_ERROR_INVALID_VALUE,
                "nor is there an answer once that capture has ended");
  const CUevent apart = bench.event();
  report.result(end_after(bench, stream, kLocal,
                          [&] {
                            std::thread([&] {
                              cu.cuCtxSetCurrent(bench.context);
                              inside = cu.cuEventQuery(apart);
                            }).join();
                          }),
                CUDA_SUCCESS, "a thread-local capture does not mind other threads");
  report.result(inside, CUDA_SUCCESS, "nor they it");
  report.result(end_after(bench, stream, kRelaxed,
                          [&] {
                            CUdeviceptr pointer = 0;
                            inside = cu.cuMemAlloc_v2(&pointer, 1);
                            cu.cuMemFree_v2(pointer);
                          }),
                CUDA_SUCCESS, "a relaxed capture does not mind new memory");
  report.result(inside, CUDA_SUCCESS, "which there is");
  report.result(end_after(bench, stream, kGlobal,
                          [&] {
                            CUstreamCaptureMode mode = kRelaxed;
                            cu.cuThreadExchangeStreamCaptureMode(&mode);
                            inside = cu.cuEventQuery(bench.event());
                            cu.cuThreadExchangeStreamCaptureMode(&mode);
                          }),
                CUDA_SUCCESS, "a thread that is relaxed does not break a global capture");
  report.result(end_after(bench, stream, kLocal,
                          [&] {
                            cu.cuEventRecord(event, stream);
                            cu.cuStreamWaitEvent(other, event, 0);
                            bench.launch(bench.brief, other);
                          }),
                CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "a branch that is not joined ends it");
  CUgraph graph = nullptr;
  report.result(cu.cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE,
                "what was not begun cannot end");
  report.result(cu.cuStreamBeginCapture_v2(nullptr, kLocal), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                "the legacy stream cannot be captured");
  cu.cuStreamBeginCapture_v2(stream, kLocal);
  std::thread([&] {
    cu.cuCtxSetCurrent(bench.context);
    inside = cu.cuStreamEndCapture(stream, &graph);
  }).join();
  report.result(inside, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                "another thread gets no graph from it");
  report.result(cu.cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE,
                "but has ended it");
  cu.cuEventDestroy_v2(event);
  cu.cuEventDestroy_v2(apart);
  cu.cuStreamDestroy_v2(stream);
  cu.cuStreamDestroy_v2(other);
}

void check_capture(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  const CUstream stream = bench.stream(), other = bench.stream();
  const CUevent fork = bench.event(), join = bench.event();
  CUstreamCaptureStatus status = -1;
  report.result(cu.cuStreamIsCapturing(stream, &status), CUDA_SUCCESS, "cuStreamIsCapturing");
  report.equal(status, CU_STREAM_CAPTURE_STATUS_NONE, "no stream captures unasked");
  report.result(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS,
                "a capture begins");
  cu.cuStreamIsCapturing(stream, &status);
  report.equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE, "the stream captures");
  report.result(bench.launch(bench.spin, stream), CUDA_SUCCESS, "a launch is captured");
  cu.cuEventRecord(fork, stream);
  report.result(cu.cuStreamWaitEvent(other, fork, 0), CUDA_SUCCESS, "another stream joins");
  cu.cuStreamIsCapturing(other, &status);
  report.equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE, "it captures too");
  bench.launch(bench.spin, other);
  cu.cuEventRecord(join, other);
  report.result(cu.cuStreamWaitEvent(stream, join, 0), CUDA_SUCCESS, "and is joined");
  std::uint64_t id = 0, same = 0;
  cu.cuStreamGetCaptureInfo_v2(stream, &status, &id, nullptr, nullptr, nullptr);
  cu.cuStreamGetCaptureInfo_v2(other, &status, &same, nullptr, nullptr, nullptr);
  report.check(id != 0 && id == same, "both have the capture's number");
  CUgraph graph = nullptr;
  report.result(cu.cuStreamEndCapture(stream, &graph), CUDA_SUCCESS, "the capture ends");
  report.equal(static_cast<long long>(nodes_of(cu, graph)), 2, "its graph has a node a launch");
  cu.cuStreamIsCapturing(other, &status);
  report.equal(status, CU_STREAM_CAPTURE_STATUS_NONE, "nobody captures any more");
  report.result(cu.cuStreamQuery(stream), CUDA_SUCCESS, "what was captured did not run");
  cu.cuGraphDestroy(graph);
  cu.cuEventDestroy_v2(fork);
  cu.cuEventDestroy_v2(join);
  cu.cuStreamDestroy_v2(stream);
  cu.cuStreamDestroy_v2(other);
}

// Functions of the program's: captured, and added by hand.
void check_host_nodes(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  const CUstream stream = bench.stream();
  int runs = 0;
  const CUDA_HOST_NODE_PARAMS count_up{[](void* user) { ++*static_cast<int*>(user); }, &runs};
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode nodes[3] = {};
  std::size_t count = 2;
  cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  bench.launch(bench.brief, stream);
  report.result(cu.cuLaunchHostFunc(stream, count_up.fn, count_up.userData), CUDA_SUCCESS,
                "a function of the program's is captured");
  cu.cuStreamEndCapture(stream, &graph);
  cu.cuGraphGetNodes(graph, nodes, &count);
  CUgraphNodeType type = -1;
  cu.cuGraphNodeGetType(nodes[1], &type);
  report.equal(type, CU_GRAPH_NODE_TYPE_HOST, "as a node of its own kind");
  CUDA_HOST_NODE_PARAMS function{};
  report.result(cu.cuGraphHostNodeGetParams(nodes[1], &function), CUDA_SUCCESS, "that says it");
  report.check(function.fn == count_up.fn && function.userData == &runs, "as it was captured");
  report.result(cu.cuGraphAddHostNode(&nodes[2], graph, &nodes[1], 1, &count_up), CUDA_SUCCESS,
                "one more is added");
  cu.cuGraphInstantiateWithFlags(&exec, graph, 0);
  report.equal(runs, 0, "none has run yet");
  cu.cuGraphLaunch(exec, stream);
  cu.cuGraphLaunch(exec, stream);
  report.result(cu.cuStreamSynchronize(stream), CUDA_SUCCESS, "the graph runs twice");
  report.equal(runs, 4, "and each of them with it");
  cu.cuGraphExecDestroy(exec);
  cu.cuGraphDestroy(graph);
  cu.cuStreamDestroy_v2(stream);
}

void check_graphs(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  const CUstream stream = bench.stream();
  const CUevent start = bench.event(), end = bench.event();
  const CUgraph three = captured(bench, stream, 3), again = captured(bench, stream, 3);
  const CUgraph four = captured(bench, stream, 4);
  CUgraphExec exec = nullptr;
  report.result(cu.cuGraphInstantiateWithFlags(&exec, three, 0), CUDA_SUCCESS,
                "a graph is instantiated");
  cu.cuEventRecord(start, stream);
  report.result(cu.cuGraphLaunch(exec, stream), CUDA_SUCCESS, "it is launched");
  report.result(cu.cuGraphLaunch(exec, stream), CUDA_SUCCESS, "and launched again");
  cu.cuEventRecord(end, stream);
  report.result(cu.cuEventQuery(end), CUDA_ERROR_NOT_READY, "it takes time");
  cu.cuStreamSynchronize(stream);
  report.check(bench.between(start, end) >= 0.9 * 6 * kSpinMs, "as much as its kernels");
  CUgraphExecUpdateResultInfo info{};
  report.result(cu.cuGraphExecUpdate_v2(exec, again, &info), CUDA_SUCCESS,
                "a graph of the same shape takes its place");
  report.result(cu.cuGraphExecUpdate_v2(exec, four, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                "one of another shape does not");
  report.equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, "and that is said");
  std::vector<CUgraphNode> nodes(3);
  std::size_t count = nodes.size();
  cu.cuGraphGetNodes(again, nodes.data(), &count);
  CUgraphNodeType type = -1;
  cu.cuGraphNodeGetType(nodes[0], &type);
  report.equal(type, CU_GRAPH_NODE_TYPE_KERNEL, "its nodes are kernels");
  CUDA_KERNEL_NODE_PARAMS_v2 launch{};
  report.result(cu.cuGraphKernelNodeGetParams_v2(nodes[0], &launch), CUDA_SUCCESS,
                "a node says its launch");
  report.check(launch.func == bench.spin && launch.gridDimX == 1, "as it was captured");
  CUgraph clone = nullptr;
  report.result(cu.cuGraphClone(&clone, three), CUDA_SUCCESS, "a graph is cloned");
  report.equal(static_cast<long long>(nodes_of(cu, clone)), 3, "with all its nodes");
  cu.cuGraphDestroy(clone);
  report.result(cu.cuGraphDestroy(three), CUDA_SUCCESS, "a graph is destroyed");
  report.result(cu.cuGraphLaunch(exec, stream), CUDA_SUCCESS, "its instance lives on");
  cu.cuStreamSynchronize(stream);
  report.result(cu.cuGraphExecDestroy(exec), CUDA_SUCCESS, "an instance is destroyed");
  cu.cuGraphDestroy(again);
  cu.cuGraphDestroy(four);
  cu.cuEventDestroy_v2(start);
  cu.cuEventDestroy_v2(end);
  cu.cuStreamDestroy_v2(stream);
}

}  // namespace conformance
