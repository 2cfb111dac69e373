#include "hook/captures.h"
#include "hook/memory.h"

SLUICE_DRIVER(cuCtxPopCurrent_v2);
SLUICE_DRIVER(cuCtxPushCurrent_v2);
SLUICE_DRIVER(cuDeviceGetMemPool);
SLUICE_DRIVER(cuMemAllocAsync);
SLUICE_DRIVER(cuMemAllocAsync_ptsz);
SLUICE_DRIVER(cuMemAllocFromPoolAsync);
SLUICE_DRIVER(cuMemAllocFromPoolAsync_ptsz);
SLUICE_DRIVER(cuMemFreeAsync);
SLUICE_DRIVER(cuMemFreeAsync_ptsz);
SLUICE_DRIVER(cuMemPoolCreate);
SLUICE_DRIVER(cuMemPoolDestroy);
SLUICE_DRIVER(cuMemPoolGetAttribute);
SLUICE_DRIVER(cuMemPoolTrimTo);
SLUICE_DRIVER(cuStreamGetCtx);

namespace sluice::hook {
namespace {

struct Pool {
  CUmemoryPool handle;
  Charge charge;
};
struct Pools {
  pthread_mutex_t lock;  // of the table
  AddressTable<Pool> known;
};
Pools* process_pools;

uint64_t key_of(CUmemoryPool pool) {
  return reinterpret_cast<uint64_t>(pool);
}

uint64_t attribute_of(CUmemoryPool pool, CUmemPool_attribute attribute) {
  const BesideCaptures beside;
  uint64_t value = 0;
  return driver_cuMemPoolGetAttribute(pool, attribute, &value) == CUDA_SUCCESS ? value : 0;
}

// What the pool has reserved more than it was charged for when somebody last looked is charged now,
// or given back; `taken` bytes of it were charged already. False: the slice has no room for it; it
// is charged all the same. Under the lock, or else two who look at once could count it twice, or
// the one give back what it took before the other has charged it. A pool that is not in the table
// may be gone by now, unless its user is asking.
enum class Asked { kByItsUser, kByOthers };
bool charge_growth(Pools& pools, CUmemoryPool pool, int device, Asked asked, uint64_t taken) {
  MemoryAccount* account = account_of(device);
  if (account == nullptr) return true;
  const Lock lock(pools.lock);
  const Pool* known = pools.known.find(key_of(pool));
  if (known == nullptr && asked == Asked::kByOthers) return true;
  Pool entry = known != nullptr ? *known : Pool{pool, {0, device, nullptr}};
  const uint64_t reserved = attribute_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  const auto more = static_cast<int64_t>(reserved - entry.charge.bytes - taken);
  entry.charge.bytes = reserved;
  pools.known.insert(key_of(pool), entry);
  return charge_difference(*account, more);
}

// Of copies, for visitors change the table. Before they ask the driver, they see whether it is
// still there. One that comes or goes meanwhile may have another be visited twice, or not.
template <class Visit>
void for_each_pool(Pools& pools, Visit visit) {
  constexpr int kAtOnce = 64;
  Pool copy[kAtOnce];
  int visited = 0, count = 0;
  do {
    int skip = visited;
    count = 0;
    {
      const Lock lock(pools.lock);
      pools.known.for_each([&](uint64_t, const Pool& pool) {
        if (--skip < 0 && count < kAtOnce) copy[count++] = pool;
      });
    }
    for (int i = 0; i < count; ++i) visit(copy[i].handle, copy[i].charge.device);
    visited += count;
  } while (count == kAtOnce);
}

void settle(Pools& pools, CUmemoryPool pool, int device) {
  charge_growth(pools, pool, device, Asked::kByOthers, 0);
}

void trim(Pools& pools, CUmemoryPool pool) {
  const Lock lock(pools.lock);
  const BesideCaptures beside;
  if (pools.known.find(key_of(pool)) != nullptr) driver_cuMemPoolTrimTo(pool, 0);
}

bool has_room(CUmemoryPool pool, uint64_t bytes) {
  return attribute_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >=
         attribute_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) + bytes;
}

// What a pool grows by is known when it has. So as much as is asked of it is charged before, and
// put right after. A pool that grew by more than the slice has left is charged all the same, and
// the allocation undone.
template <class Allocate, class Release>
CUresult allocate_from(CUmemoryPool pool, int device, uint64_t bytes, Allocate allocate,
                       Release release) {
  MemoryAccount* account = account_of(device);
  Pools* pools = account != nullptr ? wiped_once(&process_pools) : nullptr;
  if (pools == nullptr) return allocate();
  uint64_t taken = charged_for(bytes);
  if (!take_from_all(*account, taken)) {
    if (!has_room(pool, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    taken = 0;
  }
  SLUICE_STEP("pool: taken");
  const CUresult result = allocate();
  SLUICE_STEP("pool: allocated");
  const bool fits = charge_growth(*pools, pool, device, Asked::kByItsUser, taken);
  if (result != CUDA_SUCCESS || fits) return result;
  release();
  settle_pools();
  return CUDA_ERROR_OUT_OF_MEMORY;
}

// Of one whose device nobody told, the context's is as good as any.
int device_of_pool(CUmemoryPool pool) {
  Pools* pools = wiped_once(&process_pools);
  if (pools == nullptr) return -1;
  {
    const Lock lock(pools->lock);
    if (const Pool* known = pools->known.find(key_of(pool))) return known->charge.device;
  }
  return device_of_context();
}

int device_of_stream(CUstream stream) {
  if (__atomic_load_n(&devices_seen, __ATOMIC_ACQUIRE) == 1) return 0;
  CUcontext context = nullptr;
  const bool there = driver_cuStreamGetCtx(stream, &context) == CUDA_SUCCESS &&
                     driver_cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
  const int device = device_of_context();
  if (there) driver_cuCtxPopCurrent_v2(&context);
  return device;
}

template <auto allocate, auto release, auto is_capturing>
CUresult allocate_async(CUdeviceptr* pointer, size_t bytes, CUstream stream) {
  const auto now = [&] { return allocate(pointer, bytes, stream); };
  CUmemoryPool pool = nullptr;
  const int device = captures<is_capturing>(stream) ? -1 : device_of_stream(stream);
  if (device < 0 || driver_cuDeviceGetMemPool(&pool, device) != CUDA_SUCCESS) return now();
  return allocate_from(pool, device, bytes, now, [&] { release(*pointer, stream); });
}

template <auto allocate, auto release, auto is_capturing>
CUresult allocate_from_pool(CUdeviceptr* pointer, size_t bytes, CUmemoryPool pool,
                            CUstream stream) {
  const auto now = [&] { return allocate(pointer, bytes, pool, stream); };
  if (captures<is_capturing>(stream)) return now();
  return allocate_from(pool, device_of_pool(pool), bytes, now, [&] { release(*pointer, stream); });
}

CUresult settled(CUresult result) {
  SLUICE_STEP("pool: freed");
  settle_pools();
  return result;
}

}  // namespace

void settle_pools() {
  Pools* pools = __atomic_load_n(&process_pools, __ATOMIC_ACQUIRE);
  if (pools == nullptr) return;
  for_each_pool(*pools, [&](CUmemoryPool pool, int device) { settle(*pools, pool, device); });
}

bool take_from_all(MemoryAccount& account, uint64_t bytes) {
  if (account.take(bytes)) return true;
  trim_graph_memory();
  Pools* pools = __atomic_load_n(&process_pools, __ATOMIC_ACQUIRE);
  if (pools == nullptr) return account.take(bytes);
  settle_pools();
  if (account.take(bytes)) return true;
  for_each_pool(*pools, [&](CUmemoryPool pool, int device) {
    trim(*pools, pool);
    settle(*pools, pool, device);
  });
  return account.take(bytes);
}

}  // namespace sluice::hook

using namespace sluice::hook;

extern "C" {

SLUICE_EXPORT CUresult cuMemAllocAsync(CUdeviceptr* pointer, size_t bytes, CUstream stream) {
  return allocate_async<driver_cuMemAllocAsync, driver_cuMemFreeAsync, kLegacy>(pointer, bytes,
                                                                                stream);
}
SLUICE_EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr* pointer, size_t bytes, CUstream stream) {
  return allocate_async<driver_cuMemAllocAsync_ptsz, driver_cuMemFreeAsync_ptsz, kPerThread>(
      pointer, bytes, stream);
}

SLUICE_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr* pointer, size_t bytes,
                                               CUmemoryPool pool, CUstream stream) {
  return allocate_from_pool<driver_cuMemAllocFromPoolAsync, driver_cuMemFreeAsync, kLegacy>(
      pointer, bytes, pool, stream);
}
SLUICE_EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* pointer, size_t bytes,
                                                    CUmemoryPool pool, CUstream stream) {
  return allocate_from_pool<driver_cuMemAllocFromPoolAsync_ptsz, driver_cuMemFreeAsync_ptsz,
                            kPerThread>(pointer, bytes, pool, stream);
}

SLUICE_EXPORT CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  return settled(driver_cuMemFreeAsync(pointer, stream));
}
SLUICE_EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream) {
  return settled(driver_cuMemFreeAsync_ptsz(pointer, stream));
}

SLUICE_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes_to_keep) {
  return settled(driver_cuMemPoolTrimTo(pool, bytes_to_keep));
}

// A pool knows its device by being noted; the host's are not counted.
SLUICE_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  const CUresult result = driver_cuMemPoolCreate(pool, properties);
  if (result != CUDA_SUCCESS) return result;
  const bool on_device = properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  const int device = on_device ? properties->location.id : -1;
  Pools* pools = device < 0 || account_of(device) != nullptr ? wiped_once(&process_pools) : nullptr;
  if (pools == nullptr) return result;
  const Lock lock(pools->lock);
  pools->known.insert(key_of(*pool), {*pool, {0, device, nullptr}});
  return result;
}

SLUICE_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  Pools* pools = __atomic_load_n(&process_pools, __ATOMIC_ACQUIRE);
  Pool entry{pool, {0, -1, nullptr}};
  if (pools != nullptr) {
    const Lock lock(pools->lock);
    if (const Pool* known = pools->known.find(key_of(pool))) entry = *known;
    pools->known.remove(key_of(pool));  // its number may be another's as soon as it is gone
  }
  const CUresult result = driver_cuMemPoolDestroy(pool);
  if (entry.charge.device < 0) return result;
  if (result == CUDA_SUCCESS) {
    account_of(entry.charge.device)->give_back(entry.charge.bytes);
  } else {
    const Lock lock(pools->lock);
    pools->known.insert(key_of(pool), entry);
  }
  return result;
}

}  // extern "C"
