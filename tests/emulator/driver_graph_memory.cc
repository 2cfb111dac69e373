#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/emulator/capture.h"
#include "tests/emulator/device_memory.h"
#include "tests/emulator/graph_memory.h"
#include "tests/emulator/ranges.h"

using namespace sluice::emulator;

namespace {
void* reserve_addresses(std::uint64_t at, std::uint64_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at != 0 ? MAP_FIXED : 0);
  return mmap(pointer_to(at), bytes, PROT_NONE, flags, -1, 0);
}

void trim(Call& call, CUdevice device) {
  GraphMemory& memory = call.driver().graph_memory;
  for (auto& [at, block] : memory.blocks) {
    if (block.device != device || block.in_use || block.allocation == DeviceModel::kNone) continue;
    reserve_addresses(at, block.mapped);
    give_back_memory(call, block.allocation);
    block.allocation = DeviceModel::kNone;
    memory.reserved[device] -= block.mapped;
  }
}

CUresult back(Call& call, std::uint64_t at, GraphBlock& block) {
  if (block.allocation != DeviceModel::kNone) return CUDA_SUCCESS;
  Driver& driver = call.driver();
  if (take_memory(call, block.device, block.bytes, block.allocation) != CUDA_SUCCESS) {
    trim(call, block.device);
    const CUresult result = take_memory(call, block.device, block.bytes, block.allocation);
    if (result != CUDA_SUCCESS) return result;
  }
  std::uint64_t offset = 0;
  {
    const Machine::Lock lock(*driver.machine);
    offset = lock->allocations[block.allocation].offset;
  }
  if (mmap(pointer_to(at), block.mapped, PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_NORESERVE | MAP_FIXED, driver.machine->memory_file(),
           static_cast<off_t>(offset)) == MAP_FAILED) {
    give_back_memory(call, block.allocation);
    block.allocation = DeviceModel::kNone;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  driver.graph_memory.reserved[block.device] += block.mapped;
  return CUDA_SUCCESS;
}

void use(Driver& driver, std::uint64_t at, GraphBlock& block) {
  block.in_use = true;
  driver.ranges[at] = {.kind = RangeKind::kGraph, .bytes = block.bytes, .mapped = block.mapped};
}

}  // namespace

namespace sluice::emulator {

std::uint64_t new_graph_block(Call& call, const Graph& graph, CUdevice device,
                              std::uint64_t bytes) {
  const std::uint64_t mapped = (bytes + kGranule - 1) / kGranule * kGranule;
  void* reserved = reserve_addresses(0, mapped);
  if (reserved == MAP_FAILED) return 0;
  const auto at = reinterpret_cast<std::uint64_t>(reserved);
  call.driver().graph_memory.blocks[at] = {
      .device = device, .graph = &graph, .bytes = bytes, .mapped = mapped};
  return at;
}

bool is_graph_memory(const Driver& driver, std::uint64_t address, std::uint64_t bytes) {
  const auto& blocks = driver.graph_memory.blocks;
  const auto after = blocks.upper_bound(address);
  if (after == blocks.begin()) return false;
  const auto& [at, block] = *std::prev(after);
  return address + bytes <= at + block.bytes;
}

bool free_by_node(Driver& driver, const Graph& graph, std::uint64_t pointer) {
  const auto found = driver.graph_memory.blocks.find(pointer);
  if (found == driver.graph_memory.blocks.end()) return false;
  GraphBlock& block = found->second;
  if (block.graph != &graph) return true;
  return !std::exchange(block.freed_within, true);
}

void orphan_blocks_of(Driver& driver, const Graph& graph) {
  for (auto& [at, block] : driver.graph_memory.blocks)
    if (block.graph == &graph) block.graph = nullptr;
}

CUresult back_graph_memory(Call& call, const GraphExec& exec) {
  for (const Node& node : exec.graph.nodes) {
    if (node.type != CU_GRAPH_NODE_TYPE_MEM_ALLOC) continue;
    const auto block = call.driver().graph_memory.blocks.find(node.pointer);
    if (const CUresult result = back(call, node.pointer, block->second); result != CUDA_SUCCESS)
      return result;
  }
  return CUDA_SUCCESS;
}

CUresult launch_memory_nodes(Call& call, const GraphExec& exec) {
  Driver& driver = call.driver();
  for (const Node& node : exec.graph.nodes) {
    if (node.type != CU_GRAPH_NODE_TYPE_MEM_ALLOC) continue;
    if (exec.frees_on_launch) free_graph_memory(driver, node.pointer);
    if (driver.graph_memory.blocks[node.pointer].in_use) return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult result = back_graph_memory(call, exec); result != CUDA_SUCCESS) return result;
  for (const Node& node : exec.graph.nodes) {
    if (node.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
      use(driver, node.pointer, driver.graph_memory.blocks[node.pointer]);
    if (node.type == CU_GRAPH_NODE_TYPE_MEM_FREE) free_graph_memory(driver, node.pointer);
  }
  return CUDA_SUCCESS;
}

bool free_graph_memory(Driver& driver, std::uint64_t pointer) {
  const auto found = driver.graph_memory.blocks.find(pointer);
  if (found == driver.graph_memory.blocks.end() || !found->second.in_use) return false;
  found->second.in_use = false;
  driver.ranges.erase(pointer);
  return true;
}

}  // namespace sluice::emulator

CUresult cuDeviceGraphMemTrim(CUdevice device) {
  Call call(__func__, Call::kDriver);
  if (const CUresult result = call.refused(device); result != CUDA_SUCCESS) return result;
  trim(call, device);
  return CUDA_SUCCESS;
}

// What is reserved counts as in use until it is trimmed, freed or not.
CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                      void* value) {
  const Call call(__func__, Call::kDriver);
  if (const CUresult result = call.refused(device); result != CUDA_SUCCESS) return result;
  if (value == nullptr || (attribute != CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT &&
                           attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT))
    return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t& reserved = call.driver().graph_memory.reserved[device];
  std::memcpy(value, &reserved, sizeof reserved);
  return CUDA_SUCCESS;
}
