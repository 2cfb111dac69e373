// Which devices there are: under a slice, its own, numbered from 0 in their order. Devices outside
// the slice are not found, by index, UUID, serial or bus.
#include "nvml/slice.h"

SLUICE_NVML(nvmlDeviceGetCount);
SLUICE_NVML(nvmlDeviceGetCount_v2);
SLUICE_NVML(nvmlDeviceGetHandleByIndex);
SLUICE_NVML(nvmlDeviceGetHandleByIndex_v2);
SLUICE_NVML(nvmlDeviceGetHandleByPciBusId);
SLUICE_NVML(nvmlDeviceGetHandleByPciBusId_v2);
SLUICE_NVML(nvmlDeviceGetHandleBySerial);
SLUICE_NVML(nvmlDeviceGetHandleByUUID);
SLUICE_NVML(nvmlDeviceGetHandleByUUIDV);
SLUICE_NVML(nvmlDeviceGetIndex);
SLUICE_NVML(nvmlDeviceGetTopologyNearestGpus);
SLUICE_NVML(nvmlSystemGetTopologyGpuSet);
SLUICE_NVML(nvmlUnitGetDevices);

namespace sluice::hook::nvml {
namespace {

nvmlReturn_t own_count(nvmlReturn_t result, unsigned* count) {
  if (result == NVML_SUCCESS && in_slice()) *count = static_cast<unsigned>(device_count());
  return result;
}

nvmlReturn_t if_own(nvmlReturn_t result, nvmlDevice_t* device) {
  if (result != NVML_SUCCESS || !in_slice() || device_of(*device) >= 0) return result;
  *device = nullptr;
  return NVML_ERROR_NOT_FOUND;
}

// A caller may ask for the count alone, without space for handles; none is then written.
nvmlReturn_t own_among(nvmlReturn_t result, unsigned* count, nvmlDevice_t* devices) {
  if (result != NVML_SUCCESS || devices == nullptr || !in_slice()) return result;
  unsigned kept = 0;
  for (unsigned i = 0; i < *count; ++i)
    if (device_of(devices[i]) >= 0) devices[kept++] = devices[i];
  *count = kept;
  return result;
}

}  // namespace
}  // namespace sluice::hook::nvml

using namespace sluice::hook::nvml;

extern "C" {

SLUICE_EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned* count) {
  return own_count(driver_nvmlDeviceGetCount(count), count);
}
SLUICE_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  return own_count(driver_nvmlDeviceGetCount_v2(count), count);
}

SLUICE_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t* device) {
  return in_slice() ? handle_of(index, device) : driver_nvmlDeviceGetHandleByIndex(index, device);
}
SLUICE_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  return in_slice() ? handle_of(index, device)
                    : driver_nvmlDeviceGetHandleByIndex_v2(index, device);
}

SLUICE_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned* index) {
  const nvmlReturn_t result = driver_nvmlDeviceGetIndex(device, index);
  const int own = result == NVML_SUCCESS ? device_of(device) : -1;
  if (own >= 0) *index = static_cast<unsigned>(own);
  return result;
}

SLUICE_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  return if_own(driver_nvmlDeviceGetHandleByUUID(uuid, device), device);
}
SLUICE_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_st* uuid,
                                                      nvmlDevice_t* device) {
  return if_own(driver_nvmlDeviceGetHandleByUUIDV(uuid, device), device);
}
SLUICE_EXPORT nvmlReturn_t nvmlDeviceGetHandleBySerial(const char* serial, nvmlDevice_t* device) {
  return if_own(driver_nvmlDeviceGetHandleBySerial(serial, device), device);
}
SLUICE_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* bus, nvmlDevice_t* device) {
  return if_own(driver_nvmlDeviceGetHandleByPciBusId(bus, device), device);
}
SLUICE_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus, nvmlDevice_t* device) {
  return if_own(driver_nvmlDeviceGetHandleByPciBusId_v2(bus, device), device);
}

SLUICE_EXPORT nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device,
                                                            nvmlGpuTopologyLevel_t level,
                                                            unsigned* count,
                                                            nvmlDevice_t* devices) {
  return own_among(driver_nvmlDeviceGetTopologyNearestGpus(device, level, count, devices), count,
                   devices);
}
SLUICE_EXPORT nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned cpu, unsigned* count,
                                                       nvmlDevice_t* devices) {
  return own_among(driver_nvmlSystemGetTopologyGpuSet(cpu, count, devices), count, devices);
}
SLUICE_EXPORT nvmlReturn_t nvmlUnitGetDevices(nvmlUnit_st* unit, unsigned* count,
                                              nvmlDevice_t* devices) {
  return own_among(driver_nvmlUnitGetDevices(unit, count, devices), count, devices);
}

}  // extern "C"
