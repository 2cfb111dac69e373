// Graphs: made by a capture or node by node, instantiated, launched, updated. A launch hands the
// nodes to its stream one after the other.
#include <algorithm>

#include "tests/emulator/capture.h"
#include "tests/emulator/graph_memory.h"
#include "tests/emulator/launch.h"

using namespace sluice::emulator;

namespace {
// The same nodes, in memory of its own.
Graph copy_of(const Graph& graph) {
  Graph copy;
  std::map<const Node*, Node*> twin;
  for (const Node& node : graph.nodes) {
    copy.nodes.push_back(node);
    Node& made = copy.nodes.back();
    for (Node*& before : made.after) before = twin.at(before);
    twin[&node] = &made;
  }
  return copy;
}

bool is_memory_node(const Node& node) {
  return node.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node.type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

bool has_memory_nodes(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), is_memory_node);
}

std::size_t index_of(const Graph& graph, const Node* node) {
  std::size_t i = 0;
  while (i < graph.nodes.size() && &graph.nodes[i] != node) ++i;
  return i;
}

// The differences between a graph and an instance that keep it from updating the instance.
CUgraphExecUpdateResult difference(const Graph& exec, const Graph& graph, const Node** where) {
  if (exec.nodes.size() != graph.nodes.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node &had = exec.nodes[i], &is = graph.nodes[i];
    *where = &is;
    if (had.type != is.type) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (is_memory_node(is) && had.pointer != is.pointer)
      return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    if (!std::equal(
            had.after.begin(), had.after.end(), is.after.begin(), is.after.end(),
            [&](const Node* a, const Node* b) { return index_of(exec, a) == index_of(graph, b); }))
      return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  }
  *where = nullptr;
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

// One that allocates or frees cannot be in use twice.
bool is_instantiated(Driver& driver, const Graph& graph) {
  bool found = false;
  driver.execs.for_each([&](const GraphExec& exec) { found |= exec.made_from == &graph; });
  return found;
}

CUresult instantiate(const char* function, CUgraphExec* exec, CUgraph handle,
                     unsigned long long flags) {
  Call call(function);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Driver& driver = call.driver();
  const Graph* graph = driver.graphs.find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = unsafe_call(driver); result != CUDA_SUCCESS) return result;
  if (has_memory_nodes(*graph) && is_instantiated(driver, *graph)) return CUDA_ERROR_NOT_SUPPORTED;
  auto made = std::make_unique<GraphExec>(
      GraphExec{call.context(), graph, copy_of(*graph),
                (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0});
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0)
    if (const CUresult result = back_graph_memory(call, *made); result != CUDA_SUCCESS)
      return result;
  *exec = reinterpret_cast<CUgraphExec>(driver.execs.add(std::move(made)));
  return CUDA_SUCCESS;
}

// As it was before CUDA 12.
CUresult instantiate(const char* function, CUgraphExec* exec, CUgraph graph, CUgraphNode* wrong,
                     char* log, size_t log_bytes) {
  const CUresult result = instantiate(function, exec, graph, 0);
  if (wrong != nullptr) *wrong = nullptr;
  if (log != nullptr && log_bytes > 0) *log = 0;
  return result;
}

CUresult launch(const char* name, CUgraphExec handle, CUstream stream_handle, DefaultStream which) {
  Call call(name);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Driver& driver = call.driver();
  GraphExec* exec = driver.execs.find(handle);
  Stream* stream = stream_of(call, stream_handle, which);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (exec == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUresult result = CUDA_SUCCESS;
  if (stream->capture != nullptr) {  // a graph within a graph: its nodes
    if (has_memory_nodes(exec->graph)) return CUDA_ERROR_INVALID_VALUE;
    for (const Node& node : exec->graph.nodes)
      if (capture(driver, *stream, node, result) == Captured::kRefused) return result;
    return CUDA_SUCCESS;
  }
  result = launch_memory_nodes(call, *exec);
  if (result != CUDA_SUCCESS) return result;
  const std::uint32_t sms = driver.sms_of(*stream);
  return call.submit(
      *stream, static_cast<std::uint32_t>(exec->graph.nodes.size()), [&](DeviceModel& device) {
        for (const Node& node : exec->graph.nodes) {
          if (is_memory_node(node)) continue;
          if (node.type == CU_GRAPH_NODE_TYPE_HOST) {
            driver.host_functions.add(driver, device, stream->model,
                                      {.function = node.host,
                                       .user = node.user,
                                       .device = driver.in_machine(stream->context->device)});
            continue;
          }
          if (node.type != CU_GRAPH_NODE_TYPE_KERNEL) {
            device.copy(stream->model, node.engine, node.bytes);
            continue;
          }
          if (driver.functions.find(node.function) == nullptr) continue;  // its module was unloaded
          Kernel kernel;
          if (kernel_of(*node.function, node.launch, sms, false, kernel) != CUDA_SUCCESS) continue;
          device.launch(stream->model, kernel);
          expect_fault(*stream, *node.function, device);
        }
      });
}

// A kernel node as given by its parameters; null where they are wrong.
CUresult kernel_node(const Call& call, const CUDA_KERNEL_NODE_PARAMS_v2* launch, Node& node) {
  if (launch == nullptr) return CUDA_ERROR_INVALID_VALUE;
  node.type = CU_GRAPH_NODE_TYPE_KERNEL;
  node.function = call.driver().functions.find(launch->func);
  node.launch = *launch;
  if (node.function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Kernel kernel;
  return kernel_of(*node.function, *launch, 0, false, kernel);
}

Node* node_of(const Call& call, CUgraphNode handle) {
  Node* found = nullptr;
  const_cast<Table<Graph>&>(call.driver().graphs).for_each([&](Graph& graph) {
    for (Node& node : graph.nodes)
      if (reinterpret_cast<CUgraphNode>(&node) == handle) found = &node;
  });
  return found;
}

// What `of` says of a node of that type.
template <typename Params, typename Of>
CUresult get_params(const Call& call, CUgraphNode handle, CUgraphNodeType type, Params* to, Of of) {
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Node* node = node_of(call, handle);
  if (node == nullptr || to == nullptr || node->type != type) return CUDA_ERROR_INVALID_VALUE;
  *to = of(*node);
  return CUDA_SUCCESS;
}

CUresult add_node(const Call& call, Graph& graph, Node node, const CUgraphNode* dependencies,
                  size_t count, CUgraphNode* made) {
  for (std::size_t i = 0; i < count; ++i) {
    Node* before = node_of(call, dependencies[i]);
    if (before == nullptr || index_of(graph, before) == graph.nodes.size())
      return CUDA_ERROR_INVALID_VALUE;
    node.after.push_back(before);
  }
  graph.nodes.push_back(std::move(node));
  *made = reinterpret_cast<CUgraphNode>(&graph.nodes.back());
  return CUDA_SUCCESS;
}
}  // namespace

CUresult cuGraphCreate(CUgraph* graph, unsigned flags) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *graph = reinterpret_cast<CUgraph>(call.driver().graphs.add(std::make_unique<Graph>()));
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph handle) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Driver& driver = call.driver();
  Graph* graph = driver.graphs.find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  driver.execs.for_each([&](GraphExec& exec) {
    if (exec.made_from == graph) exec.made_from = nullptr;
  });
  orphan_blocks_of(driver, *graph);
  driver.graphs.remove(graph);
  return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph* clone, CUgraph original) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Graph* graph = call.driver().graphs.find(original);
  if (clone == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (has_memory_nodes(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
  *clone =
      reinterpret_cast<CUgraph>(call.driver().graphs.add(std::make_unique<Graph>(copy_of(*graph))));
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Graph* graph = call.driver().graphs.find(handle);
  if (graph == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (nodes == nullptr) {
    *count = graph->nodes.size();
    return CUDA_SUCCESS;
  }
  for (std::size_t i = 0; i < *count; ++i)
    nodes[i] = i < graph->nodes.size() ? reinterpret_cast<CUgraphNode>(&graph->nodes[i]) : nullptr;
  *count = std::min(*count, graph->nodes.size());
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Node* node = node_of(call, handle);
  if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = node->type;
  return CUDA_SUCCESS;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode* made, CUgraph handle, const CUgraphNode* dependencies,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS_v2* launch) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Graph* graph = call.driver().graphs.find(handle);
  if (graph == nullptr || made == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Node node;
  if (const CUresult result = kernel_node(call, launch, node); result != CUDA_SUCCESS)
    return result;
  return add_node(call, *graph, std::move(node), dependencies, count, made);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode* made, CUgraph handle, const CUgraphNode* dependencies,
                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* allocation) {
  Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Graph* graph = call.driver().graphs.find(handle);
  if (graph == nullptr || made == nullptr || allocation == nullptr || allocation->bytesize == 0)
    return CUDA_ERROR_INVALID_VALUE;
  const CUmemPoolProps& pool = allocation->poolProps;
  if (pool.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      pool.handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
      pool.location.type != CU_MEM_LOCATION_TYPE_DEVICE || !call.driver().has(pool.location.id))
    return CUDA_ERROR_INVALID_VALUE;
  Node node{.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .bytes = allocation->bytesize};
  node.pointer = new_graph_block(call, *graph, pool.location.id, allocation->bytesize);
  if (node.pointer == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  allocation->dptr = node.pointer;
  return add_node(call, *graph, std::move(node), dependencies, count, made);
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode handle, CUDA_MEM_ALLOC_NODE_PARAMS* allocation) {
  const Call call(__func__, Call::kDriver);
  const auto of = [&](const Node& node) {
    const int device = call.driver().graph_memory.blocks[node.pointer].device;
    return CUDA_MEM_ALLOC_NODE_PARAMS{
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}},
        .bytesize = node.bytes,
        .dptr = node.pointer};
  };
  return get_params(call, handle, CU_GRAPH_NODE_TYPE_MEM_ALLOC, allocation, of);
}

CUresult cuGraphAddHostNode(CUgraphNode* made, CUgraph handle, const CUgraphNode* dependencies,
                            size_t count, const CUDA_HOST_NODE_PARAMS* function) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Graph* graph = call.driver().graphs.find(handle);
  if (graph == nullptr || made == nullptr || function == nullptr || function->fn == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  Node node{.type = CU_GRAPH_NODE_TYPE_HOST};
  node.host = function->fn;
  node.user = function->userData;
  return add_node(call, *graph, std::move(node), dependencies, count, made);
}

CUresult cuGraphHostNodeGetParams(CUgraphNode handle, CUDA_HOST_NODE_PARAMS* function) {
  const Call call(__func__, Call::kDriver);
  return get_params(call, handle, CU_GRAPH_NODE_TYPE_HOST, function, [](const Node& node) {
    return CUDA_HOST_NODE_PARAMS{node.host, node.user};
  });
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v2* launch) {
  const Call call(__func__, Call::kDriver);
  return get_params(call, handle, CU_GRAPH_NODE_TYPE_KERNEL, launch,
                    [](const Node& node) { return node.launch; });
}

CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* wrong, char* log,
                            size_t log_bytes) {
  return instantiate(__func__, exec, graph, wrong, log, log_bytes);
}
CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* wrong, char* log,
                               size_t log_bytes) {
  return instantiate(__func__, exec, graph, wrong, log, log_bytes);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return flags > 15 ? CUDA_ERROR_INVALID_VALUE : instantiate(__func__, exec, graph, flags);
}

SLUICE_BOTH(cuGraphInstantiateWithParams, _ptsz,
            (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters), {
              if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
              const CUresult result = instantiate(__func__, exec, graph, parameters->flags);
              parameters->hErrNode_out = nullptr;
              parameters->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                                                              : CUDA_GRAPH_INSTANTIATE_ERROR;
              return result;
            })

CUresult cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph_handle,
                              CUgraphExecUpdateResultInfo* info) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  GraphExec* exec = call.driver().execs.find(handle);
  const Graph* graph = call.driver().graphs.find(graph_handle);
  if (exec == nullptr || graph == nullptr || info == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Node* where = nullptr;
  const CUgraphExecUpdateResult result = difference(exec->graph, *graph, &where);
  *info = {result, reinterpret_cast<CUgraphNode>(const_cast<Node*>(where)), nullptr};
  if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  exec->graph = copy_of(*graph);
  return CUDA_SUCCESS;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec handle, CUgraphNode node_handle,
                                           const CUDA_KERNEL_NODE_PARAMS_v2* launch) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  GraphExec* exec = call.driver().execs.find(handle);
  const Node* original = node_of(call, node_handle);
  if (exec == nullptr || original == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Node changed;
  if (const CUresult result = kernel_node(call, launch, changed); result != CUDA_SUCCESS)
    return result;
  std::size_t index = exec->graph.nodes.size();
  call.driver().graphs.for_each([&](Graph& graph) {
    if (const std::size_t i = index_of(graph, original); i < graph.nodes.size()) index = i;
  });
  if (index >= exec->graph.nodes.size()) return CUDA_ERROR_INVALID_VALUE;
  Node& node = exec->graph.nodes[index];
  if (node.type != CU_GRAPH_NODE_TYPE_KERNEL) return CUDA_ERROR_INVALID_VALUE;
  node.function = changed.function;
  node.launch = changed.launch;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  GraphExec* exec = call.driver().execs.find(handle);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  call.driver().execs.remove(exec);
  return CUDA_SUCCESS;
}

SLUICE_BOTH(cuGraphUpload, _ptsz, (CUgraphExec exec, CUstream), {
  Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const GraphExec* uploaded = call.driver().execs.find(exec);
  return uploaded == nullptr ? CUDA_ERROR_INVALID_HANDLE : back_graph_memory(call, *uploaded);
})

SLUICE_BOTH(cuGraphLaunch, _ptsz, (CUgraphExec exec, CUstream stream),
            { return launch(__func__, exec, stream, which); })
