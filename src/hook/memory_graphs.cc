// Graphs that allocate by nodes of their own. An instance is charged for all that its graph may
// allocate, from when it is made until it is destroyed; so a launch asks for nothing. What a device
// still keeps for a destroyed instance (memory that the program has not freed, or that waits for
// the next launch) stays charged: at most as much as the device says it has reserved for graphs.
#include <stdlib.h>

#include "hook/captures.h"
#include "hook/memory.h"

SLUICE_DRIVER(cuDeviceGetGraphMemAttribute);
SLUICE_DRIVER(cuDeviceGraphMemTrim);
SLUICE_DRIVER(cuGraphExecDestroy);
SLUICE_DRIVER(cuGraphGetNodes);
SLUICE_DRIVER(cuGraphInstantiate);
SLUICE_DRIVER(cuGraphInstantiate_v2);
SLUICE_DRIVER(cuGraphInstantiateWithFlags);
SLUICE_DRIVER(cuGraphInstantiateWithParams);
SLUICE_DRIVER(cuGraphInstantiateWithParams_ptsz);
SLUICE_DRIVER(cuGraphMemAllocNodeGetParams);
SLUICE_DRIVER(cuGraphNodeGetType);

namespace sluice::hook {
namespace {

// ---- what a graph allocates ---------------------------------------------------------------------

struct Span {
  uint64_t begin, end;
};

int by_begin(const void* a, const void* b) {
  const uint64_t x = static_cast<const Span*>(a)->begin, y = static_cast<const Span*>(b)->begin;
  return x < y ? -1 : x > y ? 1 : 0;
}

bool allocates(CUgraphNode node, Span& span) {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CUDA_MEM_ALLOC_NODE_PARAMS allocation;
  if (driver_cuGraphNodeGetType(node, &type) != CUDA_SUCCESS ||
      type != CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
      driver_cuGraphMemAllocNodeGetParams(node, &allocation) != CUDA_SUCCESS ||
      allocation.poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return false;
  span = {allocation.dptr, sum(allocation.dptr, charged_for(allocation.bytesize))};
  return true;
}

// A driver puts allocations at one address if one is freed before the other begins. They share
// their memory, and count once.
uint64_t covered_by(Span* spans, size_t count) {
  qsort(spans, count, sizeof *spans, by_begin);
  uint64_t bytes = 0, covered = 0;  // up to this address
  for (size_t i = 0; i < count; ++i) {
    const uint64_t from = spans[i].begin > covered ? spans[i].begin : covered;
    if (spans[i].end <= from) continue;
    bytes += spans[i].end - from;
    covered = spans[i].end;
  }
  return rounded_up(bytes, kGranule);
}

uint64_t allocated_by(CUgraph graph) {
  size_t count = 0, found = 0;
  if (driver_cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS || count == 0) return 0;
  auto* nodes = static_cast<CUgraphNode*>(malloc(count * (sizeof(CUgraphNode) + sizeof(Span))));
  if (nodes == nullptr) return UINT64_MAX;
  auto* spans = reinterpret_cast<Span*>(nodes + count);
  if (driver_cuGraphGetNodes(graph, nodes, &count) != CUDA_SUCCESS) count = 0;
  for (size_t i = 0; i < count; ++i)
    if (allocates(nodes[i], spans[found])) ++found;
  const uint64_t bytes = covered_by(spans, found);
  free(nodes);
  return bytes;
}

template <class Make>
CUresult instantiate(CUgraphExec* exec, CUgraph graph, Make make) {
  const bool counted = account_of(device_of_context()) != nullptr;
  const uint64_t bytes = counted ? allocated_by(graph) : 0;
  return bytes == 0 ? make() : allocate_charged(exec, bytes, make, driver_cuGraphExecDestroy);
}

// ---- what destroyed instances leave -------------------------------------------------------------

struct Left {
  pthread_mutex_t lock;
  uint64_t bytes[kDevices];  // charged still
};
Left* process_left;

// Of `more` and what was left before, no more is charged than the device has reserved.
void settle(Left& left, int device, uint64_t more) {
  uint64_t& bytes = left.bytes[device];
  uint64_t reserved = 0;
  bytes += more;
  if (driver_cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
                                          &reserved) != CUDA_SUCCESS ||
      bytes <= reserved)
    return;
  account_of(device)->give_back(bytes - reserved);
  bytes = reserved;
}

CUresult destroy(CUgraphExec exec) {
  const auto key = reinterpret_cast<uint64_t>(exec);
  Charge charge{};
  const bool known = take_out_charge(key, charge);
  const CUresult result = driver_cuGraphExecDestroy(exec);
  if (!known) return result;
  if (result != CUDA_SUCCESS) {
    note_charge(key, charge);
  } else if (Left* left = wiped_once(&process_left)) {
    const Lock lock(left->lock);
    settle(*left, charge.device, charge.bytes);
  }
  return result;
}

}  // namespace

void trim_graph_memory() {
  Left* left = __atomic_load_n(&process_left, __ATOMIC_ACQUIRE);
  if (left == nullptr) return;
  const Lock lock(left->lock);
  const BesideCaptures beside;
  for (int device = 0; device < kDevices; ++device) {
    if (left->bytes[device] == 0) continue;
    driver_cuDeviceGraphMemTrim(device);
    settle(*left, device, 0);
  }
}

}  // namespace sluice::hook

using namespace sluice::hook;

extern "C" {

SLUICE_EXPORT CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* wrong,
                                          char* log, size_t log_bytes) {
  return instantiate(exec, graph,
                     [=] { return driver_cuGraphInstantiate(exec, graph, wrong, log, log_bytes); });
}
SLUICE_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* wrong,
                                             char* log, size_t log_bytes) {
  return instantiate(exec, graph, [=] {
    return driver_cuGraphInstantiate_v2(exec, graph, wrong, log, log_bytes);
  });
}
SLUICE_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph,
                                                   unsigned long long flags) {
  return instantiate(exec, graph,
                     [=] { return driver_cuGraphInstantiateWithFlags(exec, graph, flags); });
}
SLUICE_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                                    CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return instantiate(exec, graph,
                     [=] { return driver_cuGraphInstantiateWithParams(exec, graph, parameters); });
}
SLUICE_EXPORT CUresult cuGraphInstantiateWithParams_ptsz(
    CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return instantiate(exec, graph, [=] {
    return driver_cuGraphInstantiateWithParams_ptsz(exec, graph, parameters);
  });
}

SLUICE_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
  forget_graph(exec);
  return destroy(exec);
}

SLUICE_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device) {
  const CUresult result = driver_cuDeviceGraphMemTrim(device);
  trim_graph_memory();
  return result;
}

}  // extern "C"
