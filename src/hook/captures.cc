#include "hook/captures.h"

SLUICE_DRIVER(cuStreamBeginCapture);
SLUICE_DRIVER(cuStreamBeginCapture_ptsz);
SLUICE_DRIVER(cuStreamBeginCapture_v2);
SLUICE_DRIVER(cuStreamBeginCapture_v2_ptsz);
SLUICE_DRIVER(cuStreamBeginCaptureToGraph);
SLUICE_DRIVER(cuStreamBeginCaptureToGraph_ptsz);
SLUICE_DRIVER(cuStreamEndCapture);
SLUICE_DRIVER(cuStreamEndCapture_ptsz);

namespace sluice::hook {

unsigned open_captures;

namespace {

CUresult count_begun(CUresult result) {
  if (result == CUDA_SUCCESS) __atomic_add_fetch(&open_captures, 1u, __ATOMIC_RELAXED);
  return result;
}

// A capture may end with an error: it was invalidated, or is another thread's. An error may also
// leave it open. So the stream is asked.
template <auto is_capturing, auto end>
CUresult count_ended(CUstream stream, CUgraph* graph) {
  const bool before = asks_captured<is_capturing>(stream);
  const CUresult result = end(stream, graph);
  unsigned open = __atomic_load_n(&open_captures, __ATOMIC_RELAXED);
  if (!before || asks_captured<is_capturing>(stream)) return result;
  while (open != 0 && !__atomic_compare_exchange_n(&open_captures, &open, open - 1, false,
                                                   __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return result;
}

}  // namespace
}  // namespace sluice::hook

using sluice::hook::count_begun;
using sluice::hook::count_ended;
using sluice::hook::kLegacy;
using sluice::hook::kPerThread;

extern "C" {

SLUICE_EXPORT CUresult cuStreamBeginCapture(CUstream stream) {
  return count_begun(driver_cuStreamBeginCapture(stream));
}
SLUICE_EXPORT CUresult cuStreamBeginCapture_ptsz(CUstream stream) {
  return count_begun(driver_cuStreamBeginCapture_ptsz(stream));
}

SLUICE_EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return count_begun(driver_cuStreamBeginCapture_v2(stream, mode));
}
SLUICE_EXPORT CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
  return count_begun(driver_cuStreamBeginCapture_v2_ptsz(stream, mode));
}

SLUICE_EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                                   const CUgraphNode* dependencies,
                                                   const CUgraphEdgeData* edges, size_t count,
                                                   CUstreamCaptureMode mode) {
  return count_begun(
      driver_cuStreamBeginCaptureToGraph(stream, graph, dependencies, edges, count, mode));
}
SLUICE_EXPORT CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                                        const CUgraphNode* dependencies,
                                                        const CUgraphEdgeData* edges, size_t count,
                                                        CUstreamCaptureMode mode) {
  return count_begun(
      driver_cuStreamBeginCaptureToGraph_ptsz(stream, graph, dependencies, edges, count, mode));
}

SLUICE_EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return count_ended<kLegacy, driver_cuStreamEndCapture>(stream, graph);
}
SLUICE_EXPORT CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) {
  return count_ended<kPerThread, driver_cuStreamEndCapture_ptsz>(stream, graph);
}

}  // extern "C"
