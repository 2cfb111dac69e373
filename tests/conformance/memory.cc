// Memory: what is there, what comes back, and what is refused.
#include <unistd.h>

#include <cstring>
#include <vector>

#include "driver.h"

namespace conformance {
namespace {
constexpr std::size_t kMib = std::size_t{1} << 20;

std::size_t free_bytes(const Driver& cu) {
  std::size_t free = 0, total = 0;
  cu.cuMemGetInfo_v2(&free, &total);
  return free;
}

// Bytes that are set on the device come back, as they do after a way there and back.
bool holds_data(const Driver& cu, CUdeviceptr pointer) {
  std::vector<unsigned char> there(4096), back(4096);
  for (std::size_t i = 0; i < there.size(); ++i) there[i] = static_cast<unsigned char>(i * 7);
  if (cu.cuMemcpyHtoD_v2(pointer, there.data(), there.size()) != CUDA_SUCCESS) return false;
  if (cu.cuMemsetD32_v2(pointer + 4, 0x01020304, 1) != CUDA_SUCCESS) return false;
  if (cu.cuMemcpyDtoH_v2(back.data(), pointer, back.size()) != CUDA_SUCCESS) return false;
  const unsigned word = 0x01020304;
  std::memcpy(there.data() + 4, &word, sizeof word);
  return there == back;
}
}  // namespace

void check_memory(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  const std::size_t before = free_bytes(cu);
  CUdeviceptr pointer = 0, other = 0, base = 0;
  std::size_t size = 0, pitch = 0;
  report.result(cu.cuMemAlloc_v2(&pointer, 64 * kMib), CUDA_SUCCESS, "memory is allocated");
  report.check(free_bytes(cu) + 64 * kMib <= before, "so much less is free");
  report.check(holds_data(cu, pointer), "it holds data");
  report.result(cu.cuMemGetAddressRange_v2(&base, &size, pointer + 12345), CUDA_SUCCESS,
                "an address within it is known");
  report.check(base == pointer && size == 64 * kMib, "as part of it");
  report.result(cu.cuMemAlloc_v2(&other, std::size_t{1} << 50), CUDA_ERROR_OUT_OF_MEMORY,
                "more than there is is refused");
  report.result(cu.cuMemAlloc_v2(&other, 0), CUDA_ERROR_INVALID_VALUE, "nothing is refused too");
  report.result(cu.cuMemFree_v2(pointer), CUDA_SUCCESS, "memory is freed");
  report.result(cu.cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE, "but once");
  report.result(cu.cuMemFree_v2(0), CUDA_SUCCESS, "freeing nothing is allowed");
  report.check(free_bytes(cu) >= before, "it is free again");
  report.result(cu.cuMemAllocPitch_v2(&pointer, &pitch, 1000, 10, 4), CUDA_SUCCESS,
                "pitched memory is allocated");
  report.check(pitch >= 1000 && pitch % 4 == 0, "its rows are aligned");
  cu.cuMemFree_v2(pointer);
  void* host = nullptr;
  report.result(cu.cuMemHostAlloc(&host, kMib, 0), CUDA_SUCCESS, "host memory is allocated");
  report.result(cu.cuMemFreeHost(host), CUDA_SUCCESS, "and freed");
}

void check_managed_memory(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  CUdeviceptr pointer = 0;
  report.result(cu.cuMemAllocManaged(&pointer, kMib, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS,
                "managed memory is allocated");
  cu.cuMemsetD8_v2(pointer, 5, kMib);
  cu.cuCtxSynchronize();
  report.check(pointer != 0 && *reinterpret_cast<const char*>(pointer) == 5, "the host sees it");
  cu.cuMemFree_v2(pointer);
}

void check_shared_memory(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  CUdeviceptr pointer = 0, other = 0;
  CUipcMemHandle handle{};
  cu.cuMemAlloc_v2(&pointer, 2 * kMib);
  report.result(cu.cuIpcGetMemHandle(&handle, pointer), CUDA_SUCCESS, "memory can be shared");
  report.check(
      cu.cuIpcOpenMemHandle_v2(&other, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS,
      "not with oneself");
  cu.cuMemFree_v2(pointer);
}

void check_pools(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  const CUstream stream = bench.stream();
  CUmemoryPool pool = nullptr, usual = nullptr;
  report.result(cu.cuDeviceGetDefaultMemPool(&usual, bench.device), CUDA_SUCCESS,
                "a device has a pool");
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, bench.device};
  report.result(cu.cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS, "another is made");
  std::uint64_t keep = ~std::uint64_t{0}, value = 0;
  cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
  const auto attribute = [&](CUmemPool_attribute which) {
    cu.cuMemPoolGetAttribute(pool, which, &value);
    return value;
  };
  CUdeviceptr pointer = 0;
  report.result(cu.cuMemAllocFromPoolAsync(&pointer, 4 * kMib, pool, stream), CUDA_SUCCESS,
                "memory comes from it");
  report.check(attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= 4 * kMib, "that is in use");
  report.check(attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 4 * kMib, "and reserved");
  report.result(cu.cuMemFreeAsync(pointer, stream), CUDA_SUCCESS, "it is given back");
  cu.cuStreamSynchronize(stream);
  report.equal(static_cast<long long>(attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT)), 0,
               "nothing is in use");
  report.check(attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 4 * kMib,
               "but reserved, up to the threshold");
  report.result(cu.cuMemPoolTrimTo(pool, 0), CUDA_SUCCESS, "the pool is trimmed");
  report.equal(static_cast<long long>(attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)), 0,
               "nothing is reserved");
  report.result(cu.cuMemPoolDestroy(pool), CUDA_SUCCESS, "it is destroyed");
  report.check(cu.cuMemPoolDestroy(usual) != CUDA_SUCCESS, "the device's own is not");
  report.result(cu.cuMemAllocAsync(&pointer, kMib, stream), CUDA_SUCCESS,
                "memory comes from the device's own pool");
  report.result(cu.cuMemFreeAsync(pointer, stream), CUDA_SUCCESS, "and goes back to it");
  cu.cuStreamSynchronize(stream);
  cu.cuStreamDestroy_v2(stream);
}

void check_virtual_memory(const Bench& bench) {
  const Driver& cu = bench.cu;
  const Report& report = bench.report;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, bench.device};
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  std::size_t step = 0;
  report.result(
      cu.cuMemGetAllocationGranularity(&step, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
      CUDA_SUCCESS, "allocations have a granularity");
  report.check(step > 0 && (step & (step - 1)) == 0, "a power of two");
  const std::size_t before = free_bytes(cu);
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr range = 0;
  report.result(cu.cuMemCreate(&handle, step + 1, &properties, 0), CUDA_ERROR_INVALID_VALUE,
                "other sizes are refused");
  report.result(cu.cuMemCreate(&handle, step, &properties, 0), CUDA_SUCCESS, "memory is made");
  report.check(free_bytes(cu) + step <= before, "so much less is free");
  report.result(cu.cuMemAddressReserve(&range, 4 * step, 0, 0, 0), CUDA_SUCCESS,
                "addresses are reserved");
  report.result(cu.cuMemMap(range + step, step, 0, handle, 0), CUDA_SUCCESS, "memory is mapped");
  report.check(cu.cuMemMap(range + step, step, 0, handle, 0) != CUDA_SUCCESS,
               "not where there is some");
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, bench.device},
                         CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  report.result(cu.cuMemSetAccess(range + step, step, &access, 1), CUDA_SUCCESS,
                "access is granted");
  report.check(holds_data(cu, range + step), "it holds data");
  int file = -1;
  CUmemGenericAllocationHandle again = 0;
  report.result(
      cu.cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
      CUDA_SUCCESS, "a descriptor for it is made");
  report.result(
      cu.cuMemImportFromShareableHandle(&again, reinterpret_cast<void*>(std::intptr_t{file}),
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
      CUDA_SUCCESS, "and taken");
  close(file);
  report.result(cu.cuMemRelease(again), CUDA_SUCCESS, "what was taken is released");
  report.result(cu.cuMemRelease(handle), CUDA_SUCCESS, "memory is released while it is mapped");
  report.check(holds_data(cu, range + step), "it holds data still");
  report.check(cu.cuMemAddressFree(range, 4 * step) != CUDA_SUCCESS,
               "addresses with memory are not given back");
  report.result(cu.cuMemUnmap(range + step, step), CUDA_SUCCESS, "it is unmapped");
  report.check(free_bytes(cu) >= before, "it is free again");
  report.result(cu.cuMemAddressFree(range, 4 * step), CUDA_SUCCESS, "the addresses are given back");
}

}  // namespace conformance
