// Memory and addresses apart: physical allocations, address ranges, maps of the one into the other,
// and allocations passed to other processes as descriptors. A map keeps its allocation alive, as a
// handle does.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/emulator/capture.h"
#include "tests/emulator/device_memory.h"
#include "tests/emulator/ranges.h"

using namespace sluice::emulator;

namespace {
// A handle's number is never that of another allocation: index and generation.
CUmemGenericAllocationHandle handle_of(const MachineState& state, std::uint32_t id) {
  return (std::uint64_t{state.allocations[id].generation} << 32) | (id + 1);
}
bool find(const MachineState& state, CUmemGenericAllocationHandle handle, std::uint32_t& id) {
  id = static_cast<std::uint32_t>(handle) - 1;
  return id < kAllocations && state.allocations[id].used && handle_of(state, id) == handle;
}

bool good(const Driver& driver, const CUmemAllocationProp* properties) {
  return properties != nullptr && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         driver.has(properties->location.id);
}

bool reserved(const Driver& driver, std::uint64_t at, std::uint64_t bytes) {
  for (const auto& [begin, size] : driver.reserved)
    if (begin <= at && at + bytes <= begin + size) return true;
  return false;
}

// Unmaps the addresses; they stay reserved.
bool unmap(std::uint64_t at, std::uint64_t bytes) {
  return mmap(pointer_to(at), bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

// What passes from process to process as a descriptor: the handle, in a file without a name.
int file_of(CUmemGenericAllocationHandle handle) {
  const int file = memfd_create("sluice-emulated-memory", MFD_CLOEXEC);
  if (file >= 0 && write(file, &handle, sizeof handle) == sizeof handle) return file;
  if (file >= 0) close(file);
  return -1;
}
}  // namespace

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (granularity == nullptr || !good(call.driver(), properties)) return CUDA_ERROR_INVALID_VALUE;
  *granularity = kGranule;
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (handle == nullptr || flags != 0 || bytes == 0 || bytes % kGranule != 0 ||
      !good(call.driver(), properties))
    return CUDA_ERROR_INVALID_VALUE;
  std::uint32_t id = DeviceModel::kNone;
  const CUresult result = take_memory(call, properties->location.id, bytes, id);
  if (result != CUDA_SUCCESS) return result;
  Machine::Lock lock(*call.driver().machine);
  *handle = handle_of(*lock, id);
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Driver& driver = call.driver();
  Machine::Lock lock(*driver.machine);
  std::uint32_t id = 0;
  if (!find(*lock, handle, id)) return CUDA_ERROR_INVALID_VALUE;
  let_go(*lock, driver.process, id, driver.machine->memory_file());
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* pointer, size_t bytes, size_t alignment, CUdeviceptr,
                             unsigned long long flags) {
  Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (pointer == nullptr || bytes == 0 || bytes % kGranule != 0 || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t step = std::max<std::uint64_t>(alignment, kGranule);
  void* at =
      mmap(nullptr, bytes + step, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  // Unmaps the unaligned ends.
  const auto begin = reinterpret_cast<std::uint64_t>(at);
  const std::uint64_t aligned = (begin + step - 1) / step * step;
  if (aligned > begin) munmap(at, aligned - begin);
  if (aligned < begin + step) munmap(pointer_to(aligned + bytes), begin + step - aligned);
  call.driver().reserved[aligned] = bytes;
  *pointer = aligned;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) {
  Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Driver& driver = call.driver();
  const auto found = driver.reserved.find(pointer);
  if (found == driver.reserved.end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  const auto mapped = driver.ranges.lower_bound(pointer);
  if (mapped != driver.ranges.end() && mapped->first < pointer + bytes)
    return CUDA_ERROR_INVALID_VALUE;
  munmap(pointer_to(pointer), bytes);
  driver.reserved.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Driver& driver = call.driver();
  if (flags != 0 || offset != 0 || bytes == 0 || bytes % kGranule != 0 ||
      !reserved(driver, pointer, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  const auto next = driver.ranges.lower_bound(pointer);
  if (next != driver.ranges.end() && next->first < pointer + bytes) return CUDA_ERROR_INVALID_VALUE;
  std::uint32_t id = 0;
  Machine::Lock lock(*driver.machine);
  if (!find(*lock, handle, id) || lock->allocations[id].bytes != bytes)
    return CUDA_ERROR_INVALID_VALUE;
  const auto place = static_cast<off_t>(lock->allocations[id].offset);
  if (mmap(pointer_to(pointer), bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
           driver.machine->memory_file(), place) == MAP_FAILED)
    return CUDA_ERROR_MAP_FAILED;
  if (!hold(*lock, driver.process, id)) {
    unmap(pointer, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  driver.ranges[pointer] = {.kind = RangeKind::kMapped,
                            .bytes = bytes,
                            .mapped = bytes,
                            .allocation = id,
                            .accessible = false};
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
  Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Ranges& ranges = call.driver().ranges;
  const auto begin = ranges.find(pointer);
  const auto end = ranges.lower_bound(pointer + bytes);
  std::uint64_t covered = 0;
  for (auto it = begin; it != ranges.end() && it != end; ++it)
    covered += it->second.kind == RangeKind::kMapped ? it->second.bytes : 0;
  if (begin == ranges.end() || covered != bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!unmap(pointer, bytes)) return CUDA_ERROR_UNMAP_FAILED;
  for (auto it = begin; it != end; it = ranges.erase(it))
    give_back_memory(call, it->second.allocation);
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc* access,
                        size_t count) {
  Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (access == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  Ranges& ranges = call.driver().ranges;
  const auto begin = ranges.find(pointer);
  const auto end = ranges.lower_bound(pointer + bytes);
  if (begin == ranges.end() || begin->second.kind != RangeKind::kMapped)
    return CUDA_ERROR_INVALID_VALUE;
  const auto flags = access[count - 1].flags;
  const bool may = flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
  const bool may_write = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  mprotect(pointer_to(pointer), bytes,
           may_write ? PROT_READ | PROT_WRITE
           : may     ? PROT_READ
                     : PROT_NONE);
  for (auto it = begin; it != end; ++it) {
    it->second.accessible = may;
    it->second.writable = may_write;
  }
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (shareable == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  Machine::Lock lock(*call.driver().machine);
  std::uint32_t id = 0;
  if (!find(*lock, handle, id)) return CUDA_ERROR_INVALID_VALUE;
  const int file = file_of(handle);
  if (file < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(shareable) = file;
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                        CUmemAllocationHandleType type) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  const int file = static_cast<int>(reinterpret_cast<std::intptr_t>(shareable));
  CUmemGenericAllocationHandle given = 0;
  if (pread(file, &given, sizeof given, 0) != sizeof given) return CUDA_ERROR_INVALID_VALUE;
  Driver& driver = call.driver();
  Machine::Lock lock(*driver.machine);
  std::uint32_t id = 0;
  if (!find(*lock, given, id)) return CUDA_ERROR_INVALID_VALUE;
  if (!hold(*lock, driver.process, id)) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = given;
  return CUDA_SUCCESS;
}
