// How much memory a device has: under a slice, the slice's limit, or the device's memory if that is
// less. Used memory is what the slice's processes hold, with their headroom (wire/permit_memory.h).
#include "nvml/slice.h"

SLUICE_NVML(nvmlDeviceGetMemoryInfo);
SLUICE_NVML(nvmlDeviceGetMemoryInfo_v2);

namespace sluice::hook::nvml {
namespace {

constexpr uint64_t least(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

// A limit may have fallen below what is held. Programs subtract `used` from `total`, so it is at
// most `total`.
template <class Memory>
bool show_slice(nvmlDevice_t handle, Memory* memory) {
  const int device = device_of(handle);
  const SliceMemory slice = device >= 0 ? memory_of(device) : SliceMemory{};
  if (slice.limit == 0) return false;
  memory->total = least(memory->total, slice.limit);
  memory->used = least(memory->total, slice.held);
  memory->free = least(memory->free, memory->total - memory->used);
  return true;
}

}  // namespace
}  // namespace sluice::hook::nvml

using namespace sluice::hook::nvml;

extern "C" {

SLUICE_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  const nvmlReturn_t result = driver_nvmlDeviceGetMemoryInfo(device, memory);
  if (result == NVML_SUCCESS) show_slice(device, memory);
  return result;
}

// The driver's reserved memory is not part of the slice.
SLUICE_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device,
                                                      nvmlMemory_v2_t* memory) {
  const nvmlReturn_t result = driver_nvmlDeviceGetMemoryInfo_v2(device, memory);
  if (result == NVML_SUCCESS && show_slice(device, memory)) memory->reserved = 0;
  return result;
}

}  // extern "C"
