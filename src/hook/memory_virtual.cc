// Memory apart from addresses: charged when it is made, not when it is mapped; given back when the
// last handle and the last map of it are gone. What another process made is that one's to pay.
#include <stdlib.h>

#include "hook/memory.h"

SLUICE_DRIVER(cuMemCreate);
SLUICE_DRIVER(cuMemImportFromShareableHandle);
SLUICE_DRIVER(cuMemMap);
SLUICE_DRIVER(cuMemRelease);
SLUICE_DRIVER(cuMemRetainAllocationHandle);
SLUICE_DRIVER(cuMemUnmap);

namespace sluice::hook {
namespace {

// A piece of physical memory. Freed when nobody refers to it.
struct Physical {
  Charge charge;
  unsigned handles, maps;
};
struct Map {
  Physical* physical;
  CUdeviceptr address;
  uint64_t bytes;
  Map* next;  // of those that are being unmapped
};
struct VirtualMemory {
  pthread_mutex_t lock;  // of all that is reached from here
  AddressTable<Physical*> handles;
  AddressTable<Map*> maps;  // by the address where they begin
};
VirtualMemory* process_virtual;

VirtualMemory* virtual_memory() {
  return __atomic_load_n(&process_virtual, __ATOMIC_ACQUIRE);
}

// Outside the lock: giving back may speak to the daemon.
void give_back(Physical* unused) {
  if (unused == nullptr) return;
  account_of(unused->charge.device)->give_back(unused->charge.bytes);
  free(unused);
}

Physical* unless_used(Physical* physical) {
  return physical->handles == 0 && physical->maps == 0 ? physical : nullptr;
}

bool note_handle(CUmemGenericAllocationHandle handle, const Charge& charge) {
  VirtualMemory* memory = wiped_once(&process_virtual);
  auto* physical = static_cast<Physical*>(malloc(sizeof(Physical)));
  if (memory != nullptr && physical != nullptr) {
    *physical = {.charge = charge, .handles = 1, .maps = 0};
    const Lock lock(memory->lock);
    if (memory->handles.insert(handle, physical)) return true;
  }
  free(physical);
  return false;
}

// The same memory by a handle once more: as many releases make it free.
CUresult note_again(CUresult result, const CUmemGenericAllocationHandle* handle) {
  VirtualMemory* memory = virtual_memory();
  if (result != CUDA_SUCCESS || memory == nullptr) return result;
  const Lock lock(memory->lock);
  if (Physical** known = memory->handles.find(*handle)) ++(*known)->handles;
  return result;
}

// Before the release, for the driver may give the number to another at once; null: not one of ours.
Physical* forget_handle(VirtualMemory& memory, CUmemGenericAllocationHandle handle) {
  const Lock lock(memory.lock);
  Physical** known = memory.handles.find(handle);
  if (known == nullptr) return nullptr;
  Physical* physical = *known;
  if (--physical->handles == 0) memory.handles.remove(handle);
  ++physical->maps;  // stays, until the release has succeeded
  return physical;
}

// The maps in a range, which lie one behind the other. What they map stays used.
Map* take_out_maps(VirtualMemory& memory, CUdeviceptr address, CUdeviceptr end) {
  Map* taken = nullptr;
  const Lock lock(memory.lock);
  while (address < end) {
    Map** known = memory.maps.find(address);
    if (known == nullptr) break;
    Map* map = *known;
    memory.maps.remove(address);
    map->next = taken;
    taken = map;
    address += map->bytes;
  }
  return taken;
}

void put_back(VirtualMemory& memory, Map* maps) {
  const Lock lock(memory.lock);
  for (; maps != nullptr; maps = maps->next) memory.maps.insert(maps->address, maps);
}

void forget(VirtualMemory& memory, Map* maps) {
  while (maps != nullptr) {
    Map* gone = maps;
    Physical* unused = nullptr;
    maps = gone->next;
    {
      const Lock lock(memory.lock);
      --gone->physical->maps;
      unused = unless_used(gone->physical);
    }
    give_back(unused);
    free(gone);
  }
}

// What was mapped there before was unmapped unseen.
void note_map(CUdeviceptr address, uint64_t bytes, CUmemGenericAllocationHandle handle) {
  VirtualMemory* memory = virtual_memory();
  if (memory == nullptr) return;
  forget(*memory, take_out_maps(*memory, address, address + 1));
  auto* map = static_cast<Map*>(malloc(sizeof(Map)));
  const Lock lock(memory->lock);
  Physical** known = memory->handles.find(handle);
  if (map != nullptr && known != nullptr) {
    *map = {*known, address, bytes, nullptr};
    if (memory->maps.insert(address, map)) {
      ++(*known)->maps;
      return;
    }
  }
  free(map);
}

}  // namespace
}  // namespace sluice::hook

using namespace sluice::hook;

extern "C" {

SLUICE_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                                   const CUmemAllocationProp* properties,
                                   unsigned long long flags) {
  const auto make = [&] { return driver_cuMemCreate(handle, bytes, properties, flags); };
  if (account_of(0) == nullptr || properties == nullptr ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return make();
  const Charge charge{charged_for(bytes), properties->location.id, nullptr};
  MemoryAccount* account = account_of(charge.device);
  if (account == nullptr) return make();
  if (!take_from_all(*account, charge.bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  SLUICE_STEP("create: taken");
  CUresult result = make();
  SLUICE_STEP("create: made");
  if (result == CUDA_SUCCESS && !note_handle(*handle, charge)) {
    driver_cuMemRelease(*handle);
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result != CUDA_SUCCESS) account->give_back(charge.bytes);
  return result;
}

SLUICE_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  VirtualMemory* memory = virtual_memory();
  Physical* physical = memory != nullptr ? forget_handle(*memory, handle) : nullptr;
  SLUICE_STEP("release: taken out");
  const CUresult result = driver_cuMemRelease(handle);
  SLUICE_STEP("release: released");
  if (physical == nullptr) return result;
  Physical* unused = nullptr;
  {
    const Lock lock(memory->lock);
    --physical->maps;
    if (result != CUDA_SUCCESS) {
      ++physical->handles;
      memory->handles.insert(handle, physical);
    }
    unused = unless_used(physical);
  }
  give_back(unused);
  return result;
}

SLUICE_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle,
                                                   void* address) {
  return note_again(driver_cuMemRetainAllocationHandle(handle, address), handle);
}

SLUICE_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle,
                                                      void* shareable,
                                                      CUmemAllocationHandleType type) {
  return note_again(driver_cuMemImportFromShareableHandle(handle, shareable, type), handle);
}

SLUICE_EXPORT CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset,
                                CUmemGenericAllocationHandle handle, unsigned long long flags) {
  const CUresult result = driver_cuMemMap(pointer, bytes, offset, handle, flags);
  if (result == CUDA_SUCCESS) note_map(pointer, bytes, handle);
  return result;
}

SLUICE_EXPORT CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
  VirtualMemory* memory = virtual_memory();
  if (memory == nullptr) return driver_cuMemUnmap(pointer, bytes);
  Map* maps = take_out_maps(*memory, pointer, pointer + bytes);
  const CUresult result = driver_cuMemUnmap(pointer, bytes);
  if (result == CUDA_SUCCESS)
    forget(*memory, maps);
  else
    put_back(*memory, maps);
  return result;
}

}  // extern "C"
