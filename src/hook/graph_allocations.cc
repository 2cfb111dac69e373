#include "hook/graph_allocations.h"

#include <stdlib.h>

#include "hook/memory.h"

SLUICE_DRIVER(cuGraphGetNodes);
SLUICE_DRIVER(cuGraphMemAllocNodeGetParams);
SLUICE_DRIVER(cuGraphMemFreeNodeGetParams);
SLUICE_DRIVER(cuGraphNodeGetType);

namespace sluice::hook {
namespace {

// A node that allocates; or, empty, one that frees what begins there.
struct Span {
  uint64_t begin, end;
};

int by_begin(const void* a, const void* b) {
  const uint64_t x = static_cast<const Span*>(a)->begin, y = static_cast<const Span*>(b)->begin;
  return x < y ? -1 : x > y ? 1 : 0;
}

bool is_span(CUgraphNode node, Span& span, int& device) {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  if (driver_cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) return false;
  if (type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
    CUdeviceptr pointer = 0;
    if (driver_cuGraphMemFreeNodeGetParams(node, &pointer) != CUDA_SUCCESS) return false;
    span = {pointer, pointer};
    return true;
  }
  CUDA_MEM_ALLOC_NODE_PARAMS allocation;
  if (type != CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
      driver_cuGraphMemAllocNodeGetParams(node, &allocation) != CUDA_SUCCESS)
    return false;
  if (allocation.poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return false;
  span = {allocation.dptr, sum(allocation.dptr, charged_for(allocation.bytesize))};
  if (device < 0) device = allocation.poolProps.location.id;
  return true;
}

void add_up(Span* spans, size_t count, GraphAllocations& all) {
  qsort(spans, count, sizeof *spans, by_begin);
  uint64_t covered = 0, longest = 0;  // up to where; of those that begin at one address
  int open = 0;                       // of these, how many are not freed
  for (size_t i = 0; i < count; ++i) {
    const Span& span = spans[i];
    const uint64_t from = span.begin > covered ? span.begin : covered;
    if (span.end > from) {
      all.bytes += span.end - from;
      covered = span.end;
    }
    const uint64_t length = span.end - span.begin;
    open += length > 0 ? 1 : -1;
    longest = length > longest ? length : longest;
    if (i + 1 < count && spans[i + 1].begin == span.begin) continue;
    if (open > 0) all.left += longest;
    open = 0;
    longest = 0;
  }
}

}  // namespace

GraphAllocations allocations_of(CUgraph graph) {
  GraphAllocations all{0, 0, -1};
  size_t count = 0, found = 0;
  if (driver_cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS || count == 0) return all;
  auto* nodes = static_cast<CUgraphNode*>(malloc(count * (sizeof(CUgraphNode) + sizeof(Span))));
  if (nodes == nullptr) return all;
  auto* spans = reinterpret_cast<Span*>(nodes + count);
  if (driver_cuGraphGetNodes(graph, nodes, &count) != CUDA_SUCCESS) count = 0;
  for (size_t i = 0; i < count; ++i)
    if (is_span(nodes[i], spans[found], all.device)) ++found;
  add_up(spans, found, all);
  free(nodes);
  all.bytes = rounded_up(all.bytes, kGranule);
  return all;
}

}  // namespace sluice::hook
