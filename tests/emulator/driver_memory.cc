// Memory as programs have it: plain, pitched, managed, the host's, and other processes'.
#include <sys/mman.h>

#include <cstring>

#include "tests/emulator/capture.h"
#include "tests/emulator/device_memory.h"
#include "tests/emulator/graph_memory.h"
#include "tests/emulator/ranges.h"

using namespace sluice::emulator;

namespace sluice::emulator {

CUresult take_memory(Call& call, CUdevice device, std::uint64_t bytes, std::uint32_t& allocation) {
  Driver& driver = call.driver();
  Machine::Lock lock(*driver.machine);
  const std::uint32_t index = driver.in_machine(device);
  allocation = find_room(*lock, driver.machine->memory_file(),
                         [&] { return allocate(*lock, index, driver.process, bytes); });
  return allocation == DeviceModel::kNone ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

void give_back_memory(Call& call, std::uint32_t allocation) {
  Driver& driver = call.driver();
  Machine::Lock lock(*driver.machine);
  let_go(*lock, driver.process, allocation, driver.machine->memory_file());
}

std::uint64_t map_memory(Call& call, std::uint32_t allocation, std::uint64_t& mapped) {
  Driver& driver = call.driver();
  std::uint64_t offset = 0;
  {
    Machine::Lock lock(*driver.machine);
    offset = lock->allocations[allocation].offset;
    mapped = lock->allocations[allocation].bytes;
  }
  void* at = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                  driver.machine->memory_file(), static_cast<off_t>(offset));
  return at == MAP_FAILED ? 0 : reinterpret_cast<std::uint64_t>(at);
}

Ranges::iterator range_with(Ranges& ranges, std::uint64_t address) {
  auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) return ranges.end();
  --after;
  return address < after->first + std::max<std::uint64_t>(after->second.bytes, 1) ? after
                                                                                  : ranges.end();
}

CUresult allocate_range(const char* function, RangeKind kind, CUdeviceptr* pointer, size_t bytes) {
  Call call(function);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = unsafe_call(call.driver()); result != CUDA_SUCCESS) return result;
  Range range{.kind = kind, .bytes = bytes, .context = call.context()};
  const CUresult result = take_memory(call, call.context()->device, bytes, range.allocation);
  if (result != CUDA_SUCCESS) return result;
  const std::uint64_t at = map_memory(call, range.allocation, range.mapped);
  if (at == 0) {
    give_back_memory(call, range.allocation);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  call.driver().ranges[at] = range;
  *pointer = at;
  return CUDA_SUCCESS;
}

CUresult free_range(Call& call, std::uint64_t at, RangeKind kind, RangeKind or_kind) {
  Driver& driver = call.driver();
  const auto found = driver.ranges.find(at);
  if (found == driver.ranges.end()) return CUDA_ERROR_INVALID_VALUE;
  if (found->second.kind != kind && found->second.kind != or_kind) return CUDA_ERROR_INVALID_VALUE;
  munmap(pointer_to(at), found->second.mapped);
  if (found->second.allocation != DeviceModel::kNone)
    give_back_memory(call, found->second.allocation);
  driver.ranges.erase(found);
  return CUDA_SUCCESS;
}

}  // namespace sluice::emulator

namespace {
struct IpcHandle {
  std::uint32_t allocation, generation;
  std::int32_t pid;
  std::uint64_t bytes;
};
}  // namespace

CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  const Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (free_bytes == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Driver& driver = call.driver();
  Machine::Lock lock(*driver.machine);
  reap(*lock, driver.machine->memory_file());
  *total = lock->spec.memory;
  *free_bytes = *total - memory_used(*lock, driver.in_machine(call.context()->device));
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr* pointer, size_t bytes) {
  return allocate_range(__func__, RangeKind::kDevice, pointer, bytes);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* pointer, size_t* pitch, size_t width, size_t height,
                            unsigned element) {
  if (pitch == nullptr || (element != 4 && element != 8 && element != 16))
    return CUDA_ERROR_INVALID_VALUE;
  *pitch = (width + 511) / 512 * 512;
  return allocate_range(__func__, RangeKind::kDevice, pointer, *pitch * height);
}

CUresult cuMemAllocManaged(CUdeviceptr* pointer, size_t bytes, unsigned flags) {
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
  return allocate_range(__func__, RangeKind::kManaged, pointer, bytes);
}

// Waits for all work of the context, as drivers do before they take memory away.
CUresult cuMemFree_v2(CUdeviceptr pointer) {
  if (pointer == 0) return CUDA_SUCCESS;
  {
    Call call(__func__);
    if (call.refused() != CUDA_SUCCESS) return call.refused();
    if (const CUresult result = unsafe_call(call.driver()); result != CUDA_SUCCESS) return result;
    if (!call.driver().ranges.contains(pointer)) return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult result = cuCtxSynchronize(); result != CUDA_SUCCESS) return result;
  Call call(__func__);
  if (free_graph_memory(call.driver(), pointer)) return CUDA_SUCCESS;
  return free_range(call, pointer, RangeKind::kDevice, RangeKind::kManaged);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr pointer) {
  const Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Ranges& ranges = call.driver().ranges;
  const auto found = range_with(ranges, pointer);
  if (found == ranges.end()) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = found->first;
  if (bytes != nullptr) *bytes = found->second.bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
  Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = unsafe_call(call.driver()); result != CUDA_SUCCESS) return result;
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  call.driver().ranges[reinterpret_cast<std::uint64_t>(at)] = {
      .kind = RangeKind::kHost, .bytes = bytes, .mapped = bytes, .context = call.context()};
  *pointer = at;
  return CUDA_SUCCESS;
}
CUresult cuMemAllocHost_v2(void** pointer, size_t bytes) {
  return cuMemHostAlloc(pointer, bytes, 0);
}
CUresult cuMemFreeHost(void* pointer) {
  Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  return free_range(call, reinterpret_cast<std::uint64_t>(pointer), RangeKind::kHost,
                    RangeKind::kHost);
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Ranges& ranges = call.driver().ranges;
  const auto found = range_with(ranges, pointer);
  if (value == nullptr || found == ranges.end()) return CUDA_ERROR_INVALID_VALUE;
  const Range& range = found->second;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(value) = reinterpret_cast<CUcontext>(range.context);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(value) =
          range.kind == RangeKind::kHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<bool*>(value) = range.kind == RangeKind::kManaged;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(value) = range.context != nullptr ? range.context->device : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(value) = found->first;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t*>(value) = range.bytes;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr pointer) {
  const Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Driver& driver = call.driver();
  const auto found = range_with(driver.ranges, pointer);
  if (handle == nullptr || found == driver.ranges.end()) return CUDA_ERROR_INVALID_VALUE;
  if (found->second.kind != RangeKind::kDevice) return CUDA_ERROR_INVALID_VALUE;
  Machine::Lock lock(*driver.machine);
  const std::uint32_t id = found->second.allocation;
  const IpcHandle content{id, lock->allocations[id].generation, lock->processes[driver.process].pid,
                          found->second.bytes};
  *handle = {};
  std::memcpy(handle->reserved, &content, sizeof content);
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* pointer, CUipcMemHandle handle, unsigned flags) {
  Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (pointer == nullptr || flags > CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
    return CUDA_ERROR_INVALID_VALUE;
  Driver& driver = call.driver();
  IpcHandle content{};
  std::memcpy(&content, handle.reserved, sizeof content);
  Range range{.kind = RangeKind::kImported, .bytes = content.bytes, .context = call.context()};
  {
    Machine::Lock lock(*driver.machine);
    if (content.pid == lock->processes[driver.process].pid) return CUDA_ERROR_INVALID_CONTEXT;
    if (content.allocation >= kAllocations) return CUDA_ERROR_INVALID_VALUE;
    const Allocation& a = lock->allocations[content.allocation];
    if (!a.used || a.generation != content.generation) return CUDA_ERROR_INVALID_VALUE;
    if (!hold(*lock, driver.process, content.allocation)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  range.allocation = content.allocation;
  const std::uint64_t at = map_memory(call, range.allocation, range.mapped);
  if (at == 0) {
    give_back_memory(call, range.allocation);
    return CUDA_ERROR_MAP_FAILED;
  }
  driver.ranges[at] = range;
  *pointer = at;
  return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  return free_range(call, pointer, RangeKind::kImported, RangeKind::kImported);
}
