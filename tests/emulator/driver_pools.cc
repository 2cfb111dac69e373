// Stream-ordered memory. A pool keeps freed blocks, up to its threshold, for the next request of at
// most their size. Reserved memory is charged, in use or not. The order of streams is ignored: a
// block can be reused from the moment of the call that frees it.
#include <sys/mman.h>

#include <cstring>

#include "tests/emulator/capture.h"
#include "tests/emulator/device_memory.h"
#include "tests/emulator/graph_memory.h"
#include "tests/emulator/ranges.h"

using namespace sluice::emulator;

namespace {
// Frees unused blocks until at most `keep` bytes are reserved.
void trim(Call& call, Pool& pool, std::uint64_t keep) {
  while (pool.reserved > keep && !pool.kept.empty()) {
    const auto last = std::prev(pool.kept.end());
    const auto block = pool.blocks.find(last->second);
    munmap(pointer_to(last->second), last->first);
    give_back_memory(call, block->second.second);
    pool.reserved -= last->first;
    pool.blocks.erase(block);
    pool.kept.erase(last);
  }
}

CUresult new_block(Call& call, Pool& pool, std::uint64_t bytes, std::uint64_t& at) {
  std::uint32_t allocation = DeviceModel::kNone;
  if (take_memory(call, pool.device, bytes, allocation) != CUDA_SUCCESS) {
    call.driver().pools.for_each([&](Pool& other) { trim(call, other, 0); });
    const CUresult result = take_memory(call, pool.device, bytes, allocation);
    if (result != CUDA_SUCCESS) return result;
  }
  std::uint64_t mapped = 0;
  at = map_memory(call, allocation, mapped);
  if (at == 0) {
    give_back_memory(call, allocation);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  pool.blocks[at] = {mapped, allocation};
  pool.reserved += mapped;
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  return CUDA_SUCCESS;
}

// A node of the graph that is being captured.
CUresult captured_allocation(Call& call, Stream& stream, std::uint64_t bytes,
                             CUdeviceptr* pointer) {
  Node node{.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .bytes = bytes};
  node.pointer = new_graph_block(call, *stream.capture->graph, stream.context->device, bytes);
  if (node.pointer == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = node.pointer;
  CUresult result = CUDA_SUCCESS;
  return capture(call.driver(), stream, node, result) == Captured::kRefused ? result : CUDA_SUCCESS;
}
CUresult captured_free(Call& call, Stream& stream, CUdeviceptr pointer) {
  if (!free_by_node(call.driver(), *stream.capture->graph, pointer))
    return CUDA_ERROR_INVALID_VALUE;
  Node node{.type = CU_GRAPH_NODE_TYPE_MEM_FREE};
  node.pointer = pointer;
  CUresult result = CUDA_SUCCESS;
  return capture(call.driver(), stream, node, result) == Captured::kRefused ? result : CUDA_SUCCESS;
}

CUresult allocate_from(const char* function, CUdeviceptr* pointer, size_t bytes,
                       CUmemoryPool handle, CUstream stream_handle, DefaultStream which) {
  Call call(function);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Driver& driver = call.driver();
  Stream* stream = stream_of(call, stream_handle, which);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture != nullptr) return captured_allocation(call, *stream, bytes, pointer);
  Pool* pool =
      handle == nullptr ? driver.current_pools[stream->context->device] : driver.pools.find(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t at = 0;
  if (const auto fits = pool->kept.lower_bound(bytes); fits != pool->kept.end()) {
    at = fits->second;
    pool->kept.erase(fits);
  } else if (const CUresult result = new_block(call, *pool, bytes, at); result != CUDA_SUCCESS) {
    return result;
  }
  pool->used += pool->blocks[at].first;
  pool->used_high = std::max(pool->used_high, pool->used);
  driver.ranges[at] = {
      .kind = RangeKind::kPooled, .bytes = bytes, .mapped = pool->blocks[at].first, .pool = pool};
  *pointer = at;
  return CUDA_SUCCESS;
}

// Returns the counter behind an attribute, or nullptr if it has none.
std::uint64_t* counter_of(Pool& pool, CUmemPool_attribute attribute) {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return &pool.threshold;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return &pool.reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return &pool.reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return &pool.used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return &pool.used_high;
    default:
      return nullptr;
  }
}
}  // namespace

SLUICE_BOTH(cuMemAllocAsync, _ptsz, (CUdeviceptr * pointer, size_t bytes, CUstream stream),
            { return allocate_from(__func__, pointer, bytes, nullptr, stream, which); })
SLUICE_BOTH(cuMemAllocFromPoolAsync, _ptsz,
            (CUdeviceptr * pointer, size_t bytes, CUmemoryPool pool, CUstream stream), {
              if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
              return allocate_from(__func__, pointer, bytes, pool, stream, which);
            })

SLUICE_BOTH(cuMemFreeAsync, _ptsz, (CUdeviceptr pointer, CUstream stream_handle), {
  Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Driver& driver = call.driver();
  Stream* stream = stream_of(call, stream_handle, which);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) return captured_free(call, *stream, pointer);
  if (free_graph_memory(driver, pointer)) return CUDA_SUCCESS;
  const auto found = driver.ranges.find(pointer);
  if (found == driver.ranges.end() || found->second.kind != RangeKind::kPooled)
    return CUDA_ERROR_INVALID_VALUE;
  Pool& pool = *found->second.pool;
  pool.used -= found->second.mapped;
  pool.kept.emplace(found->second.mapped, pointer);
  driver.ranges.erase(found);
  trim(call, pool, std::max(pool.threshold, pool.used));
  return CUDA_SUCCESS;
})

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (pool == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (!call.driver().has(properties->location.id)) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_unique<Pool>();
  made->device = properties->location.id;
  *pool = reinterpret_cast<CUmemoryPool>(call.driver().pools.add(std::move(made)));
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Driver& driver = call.driver();
  Pool* pool = driver.pools.find(handle);
  if (pool == nullptr || pool == driver.default_pools[pool->device])
    return CUDA_ERROR_INVALID_VALUE;
  if (pool->used > 0) return CUDA_ERROR_INVALID_VALUE;
  trim(call, *pool, 0);
  if (driver.current_pools[pool->device] == pool)
    driver.current_pools[pool->device] = driver.default_pools[pool->device];
  driver.pools.remove(pool);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t bytes_to_keep) {
  Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Pool* pool = call.driver().pools.find(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  trim(call, *pool, bytes_to_keep);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Pool* pool = call.driver().pools.find(handle);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = unsafe_call(call.driver()); result != CUDA_SUCCESS) return result;
  if (const std::uint64_t* counter = counter_of(*pool, attribute)) {
    std::memcpy(value, counter, sizeof *counter);
    return CUDA_SUCCESS;
  }
  if (attribute < 1 || attribute > CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
    return CUDA_ERROR_INVALID_VALUE;
  *static_cast<int*>(value) = pool->reuse[attribute];
  return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Pool* pool = call.driver().pools.find(handle);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      std::memcpy(&pool->threshold, value, sizeof pool->threshold);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:  // may be set back to 0 alone
      pool->reserved_high = pool->reserved;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      pool->used_high = pool->used;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      pool->reuse[attribute] = *static_cast<int*>(value);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  const Call call(__func__, Call::kDriver);
  if (const CUresult result = call.refused(device); result != CUDA_SUCCESS) return result;
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pool = reinterpret_cast<CUmemoryPool>(call.driver().default_pools[device]);
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  const Call call(__func__, Call::kDriver);
  if (const CUresult result = call.refused(device); result != CUDA_SUCCESS) return result;
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pool = reinterpret_cast<CUmemoryPool>(call.driver().current_pools[device]);
  return CUDA_SUCCESS;
}
CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool handle) {
  const Call call(__func__, Call::kDriver);
  if (const CUresult result = call.refused(device); result != CUDA_SUCCESS) return result;
  Pool* pool = call.driver().pools.find(handle);
  if (pool == nullptr || pool->device != device) return CUDA_ERROR_INVALID_VALUE;
  call.driver().current_pools[device] = pool;
  return CUDA_SUCCESS;
}
