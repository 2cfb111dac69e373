// What a program is told of the device's memory: its slice's, or the device's where that is less.
#include "hook/memory.h"

SLUICE_DRIVER(cuDeviceTotalMem);
SLUICE_DRIVER(cuDeviceTotalMem_v2);
SLUICE_DRIVER(cuMemGetInfo);
SLUICE_DRIVER(cuMemGetInfo_v2);

namespace sluice::hook {
namespace {

template <class Size>
void lower(Size* bytes, uint64_t to) {
  if (bytes != nullptr && *bytes > to) *bytes = static_cast<Size>(to);
}

template <class Size>
CUresult lower_to_slice(CUresult result, int device, Size* available, Size* total) {
  MemoryAccount* account = result == CUDA_SUCCESS ? account_of(device) : nullptr;
  uint64_t limit = 0, left = 0;
  if (account == nullptr || !account->look(limit, left)) return result;
  lower(available, left);
  lower(total, limit);
  return result;
}

}  // namespace
}  // namespace sluice::hook

using namespace sluice::hook;

extern "C" {

SLUICE_EXPORT CUresult cuMemGetInfo_v2(size_t* available, size_t* total) {
  const CUresult result = driver_cuMemGetInfo_v2(available, total);
  return lower_to_slice(result, device_of_context(), available, total);
}
SLUICE_EXPORT CUresult cuMemGetInfo(unsigned* available, unsigned* total) {
  const CUresult result = driver_cuMemGetInfo(available, total);
  return lower_to_slice(result, device_of_context(), available, total);
}

SLUICE_EXPORT CUresult cuDeviceTotalMem_v2(size_t* total, CUdevice device) {
  return lower_to_slice<size_t>(driver_cuDeviceTotalMem_v2(total, device), device, nullptr, total);
}
SLUICE_EXPORT CUresult cuDeviceTotalMem(unsigned* total, CUdevice device) {
  return lower_to_slice<unsigned>(driver_cuDeviceTotalMem(total, device), device, nullptr, total);
}

}  // extern "C"
