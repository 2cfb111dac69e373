// Memory that is allocated and freed by its address: plain, pitched, managed. Charged in full
// before the driver is asked; over the limit it is not asked at all, and the program hears what it
// would hear on a smaller device.
#include "hook/memory.h"

SLUICE_DRIVER(cuMemAlloc_v2);
SLUICE_DRIVER(cuMemAllocManaged);
SLUICE_DRIVER(cuMemAllocPitch_v2);
SLUICE_DRIVER(cuMemFree_v2);

namespace sluice::hook {
namespace {

// Rows as drivers pad them.
constexpr uint64_t pitched(uint64_t width, uint64_t height) {
  return charged_for(product(rounded_up(width, kAlignment), height));
}

}  // namespace
}  // namespace sluice::hook

using namespace sluice::hook;

extern "C" {

SLUICE_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* pointer, size_t bytes) {
  return allocate_charged(
      pointer, charged_for(bytes), [&] { return driver_cuMemAlloc_v2(pointer, bytes); },
      driver_cuMemFree_v2);
}

SLUICE_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr* pointer, size_t* pitch, size_t width,
                                          size_t height, unsigned element) {
  return allocate_charged(
      pointer, pitched(width, height),
      [&] { return driver_cuMemAllocPitch_v2(pointer, pitch, width, height, element); },
      driver_cuMemFree_v2);
}

SLUICE_EXPORT CUresult cuMemAllocManaged(CUdeviceptr* pointer, size_t bytes, unsigned flags) {
  return allocate_charged(
      pointer, charged_for(bytes), [&] { return driver_cuMemAllocManaged(pointer, bytes, flags); },
      driver_cuMemFree_v2);
}

// Memory from a pool may be freed so, too.
SLUICE_EXPORT CUresult cuMemFree_v2(CUdeviceptr pointer) {
  bool known = false;
  const CUresult result = free_charged(
      pointer, [&] { return driver_cuMemFree_v2(pointer); }, known);
  if (result == CUDA_SUCCESS && !known) settle_pools();
  return result;
}

}  // extern "C"
