#include "hook/memory_graphs.h"

#include "hook/graph_allocations.h"

SLUICE_DRIVER(cuDeviceGetGraphMemAttribute);
SLUICE_DRIVER(cuDeviceGraphMemTrim);
SLUICE_DRIVER(cuGraphExecDestroy);
SLUICE_DRIVER(cuGraphInstantiate);
SLUICE_DRIVER(cuGraphInstantiate_v2);
SLUICE_DRIVER(cuGraphInstantiateWithFlags);
SLUICE_DRIVER(cuGraphInstantiateWithParams);
SLUICE_DRIVER(cuGraphInstantiateWithParams_ptsz);
SLUICE_DRIVER(cuGraphUpload);
SLUICE_DRIVER(cuGraphUpload_ptsz);

namespace sluice::hook {

bool graphs_allocate;

namespace {

struct Instance {
  GraphAllocations needs;
  bool frees_first;   // at its launch, what the one before left
  bool launched;      // once at least
  uint32_t in_round;  // when it was launched last
};

struct DeviceMemory {
  uint64_t reserved;  // as charged
  uint32_t round;     // ends when any of it is given back
  uint64_t needed;    // by all instances that were launched in it
};

struct GraphMemory {
  pthread_mutex_t lock;  // of the table
  AddressTable<Instance> instances;
  pthread_mutex_t busy;  // of all below; held while the driver takes memory, or gives it back
  DeviceMemory devices[kDevices];
};
GraphMemory* process_graphs;

GraphMemory* graphs_known() {
  return __atomic_load_n(&process_graphs, __ATOMIC_ACQUIRE);
}

uint64_t key_of(CUgraphExec exec) {
  return reinterpret_cast<uint64_t>(exec);
}

bool find(GraphMemory& graphs, CUgraphExec exec, Instance& instance) {
  const Lock lock(graphs.lock);
  const Instance* known = graphs.instances.find(key_of(exec));
  if (known != nullptr) instance = *known;
  return known != nullptr;
}

// What the device has now; `taken` bytes were charged already for what may have come. Busy.
void settle(GraphMemory& graphs, int device, uint64_t taken) {
  DeviceMemory& memory = graphs.devices[device];
  uint64_t now = 0;
  if (driver_cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &now) !=
      CUDA_SUCCESS)
    now = memory.reserved;
  if (now < memory.reserved) {
    ++memory.round;
    memory.needed = 0;
  }
  const auto more = static_cast<int64_t>(now - memory.reserved - taken);
  memory.reserved = now;
  charge_difference(*account_of(device), more);
}

void trim(GraphMemory& graphs, int device) {
  if (graphs.devices[device].reserved == 0) return;
  driver_cuDeviceGraphMemTrim(device);
  settle(graphs, device, 0);
}

// Whether the device has all that the instance needs, and for it alone.
bool is_there(const DeviceMemory& memory, const Instance& instance) {
  return instance.launched && instance.in_round == memory.round && memory.reserved >= memory.needed;
}

// Charges what a launch may take. Busy.
bool make_room(GraphMemory& graphs, const Instance& instance, uint64_t& taken) {
  const int device = instance.needs.device;
  taken = 0;
  if (is_there(graphs.devices[device], instance)) return true;
  MemoryAccount& account = *account_of(device);
  taken = instance.needs.bytes;
  if (account.take(taken)) return true;
  trim(graphs, device);
  if (take_from_pools(account, taken)) return true;
  // What is reserved now is in use, and so may be what this instance has left.
  uint64_t own = instance.launched && instance.frees_first ? instance.needs.left : 0;
  if (own > graphs.devices[device].reserved) own = graphs.devices[device].reserved;
  taken = own > 0 ? taken - own : 0;
  if (own > 0 && account.take(taken)) return true;
  taken = 0;
  return false;
}

void note_launch(GraphMemory& graphs, CUgraphExec exec) {
  const Lock lock(graphs.lock);
  Instance* instance = graphs.instances.find(key_of(exec));
  if (instance == nullptr) return;
  DeviceMemory& memory = graphs.devices[instance->needs.device];
  if (!instance->launched || instance->in_round != memory.round)
    memory.needed += instance->needs.bytes;
  instance->launched = true;
  instance->in_round = memory.round;
}

// Of the graph; false: there is no memory to note it.
bool note_instance(CUgraphExec exec, CUgraph graph, unsigned long long flags) {
  const GraphAllocations needs = allocations_of(graph);
  if (needs.bytes == 0 || account_of(needs.device) == nullptr) {
    forget_graph_memory(exec);  // one that had its address
    return true;
  }
  GraphMemory* graphs = wiped_once(&process_graphs);
  if (graphs == nullptr) return false;
  const bool frees_first = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  const Lock lock(graphs->lock);
  if (!graphs->instances.insert(key_of(exec), {needs, frees_first, false, 0})) return false;
  __atomic_store_n(&graphs_allocate, true, __ATOMIC_RELAXED);
  return true;
}

CUresult noted(CUresult result, const CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  if (result != CUDA_SUCCESS || note_instance(*exec, graph, flags)) return result;
  driver_cuGraphExecDestroy(*exec);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

// One that is to be uploaded at once is so afterwards, as any other.
template <auto make, auto upload>
CUresult instantiate(CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (parameters == nullptr || (parameters->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) == 0 ||
      allocations_of(graph).bytes == 0) {
    const CUresult result = make(exec, graph, parameters);
    return noted(result, exec, graph, result == CUDA_SUCCESS ? parameters->flags : 0);
  }
  const uint64_t flags = parameters->flags;
  parameters->flags &= ~uint64_t{CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD};
  CUresult result = noted(make(exec, graph, parameters), exec, graph, flags);
  parameters->flags = flags;
  if (result != CUDA_SUCCESS) return result;
  result = with_graph_memory(*exec, [&] { return upload(*exec, parameters->hUploadStream); });
  if (result == CUDA_SUCCESS) return result;
  forget_graph_memory(*exec);
  driver_cuGraphExecDestroy(*exec);
  parameters->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}

}  // namespace

void forget_graph_memory(CUgraphExec exec) {
  GraphMemory* graphs = graphs_known();
  if (graphs == nullptr) return;
  const Lock lock(graphs->lock);
  graphs->instances.remove(key_of(exec));
}

GraphRoom::GraphRoom(CUgraphExec exec) : exec_(exec) {
  GraphMemory* graphs = graphs_known();
  Instance instance{};
  if (graphs == nullptr || !find(*graphs, exec, instance)) return;
  device_ = instance.needs.device;
  pthread_mutex_lock(&graphs->busy);
  granted_ = make_room(*graphs, instance, taken_);
  SLUICE_STEP("graph: taken");
}

GraphRoom::~GraphRoom() {
  if (device_ < 0) return;
  SLUICE_STEP("graph: launched");
  GraphMemory& graphs = *process_graphs;
  settle(graphs, device_, taken_);
  if (filled_) note_launch(graphs, exec_);
  pthread_mutex_unlock(&graphs.busy);
}

void trim_graph_memory() {
  GraphMemory* graphs = graphs_known();
  if (graphs == nullptr) return;
  const Lock lock(graphs->busy);
  for (int device = 0; device < kDevices; ++device) trim(*graphs, device);
}

}  // namespace sluice::hook

using namespace sluice::hook;

extern "C" {

SLUICE_EXPORT CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* wrong,
                                          char* log, size_t log_bytes) {
  return noted(driver_cuGraphInstantiate(exec, graph, wrong, log, log_bytes), exec, graph, 0);
}
SLUICE_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* wrong,
                                             char* log, size_t log_bytes) {
  return noted(driver_cuGraphInstantiate_v2(exec, graph, wrong, log, log_bytes), exec, graph, 0);
}
SLUICE_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph,
                                                   unsigned long long flags) {
  return noted(driver_cuGraphInstantiateWithFlags(exec, graph, flags), exec, graph, flags);
}
SLUICE_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                                    CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return instantiate<driver_cuGraphInstantiateWithParams, driver_cuGraphUpload>(exec, graph,
                                                                                parameters);
}
SLUICE_EXPORT CUresult cuGraphInstantiateWithParams_ptsz(
    CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return instantiate<driver_cuGraphInstantiateWithParams_ptsz, driver_cuGraphUpload_ptsz>(
      exec, graph, parameters);
}

SLUICE_EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  return with_graph_memory(exec, [&] { return driver_cuGraphUpload(exec, stream); });
}
SLUICE_EXPORT CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream) {
  return with_graph_memory(exec, [&] { return driver_cuGraphUpload_ptsz(exec, stream); });
}

SLUICE_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device) {
  GraphMemory* graphs = graphs_known();
  if (graphs == nullptr || account_of(device) == nullptr)
    return driver_cuDeviceGraphMemTrim(device);
  const Lock lock(graphs->busy);
  const CUresult result = driver_cuDeviceGraphMemTrim(device);
  if (result == CUDA_SUCCESS) settle(*graphs, device, 0);
  return result;
}

}  // extern "C"
