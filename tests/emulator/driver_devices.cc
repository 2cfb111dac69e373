// What the emulated driver says about its devices.
#include <cstring>

#include "tests/emulator/device_memory.h"
#include "tests/emulator/driver.h"
#include "tests/emulator/identity.h"

using namespace sluice::emulator;

namespace {
CUresult write(char* to, int size, const std::string& text) {
  if (to == nullptr || size <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::strncpy(to, text.c_str(), static_cast<std::size_t>(size));
  to[size - 1] = 0;
  return CUDA_SUCCESS;
}

// -1: nothing is said about it.
int attribute_of(const MachineSpec& spec, std::uint32_t device, CUdevice_attribute attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 0x7fffffff;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return 1'000'000;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return static_cast<int>(spec.spec_of(device).sms);
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return 1024;  // one block of the largest kind
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return 1;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      return 2;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return static_cast<int>(device + 1);
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return 9;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return 0;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
      return 1;
    default:
      return -1;
  }
}
}  // namespace

CUresult cuDeviceGetCount(int* count) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(call.driver().visible.size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  const Call call(__func__, Call::kDriver);
  if (const CUresult result = call.refused(ordinal); result != CUDA_SUCCESS) return result;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  const Call call(__func__, Call::kDriver);
  if (const CUresult result = call.refused(device); result != CUDA_SUCCESS) return result;
  const Driver& driver = call.driver();
  return write(name, size, device_name(driver.machine->spec().is_small(driver.in_machine(device))));
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  const Call call(__func__, Call::kDriver);
  if (const CUresult result = call.refused(device); result != CUDA_SUCCESS) return result;
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto bytes = uuid_of(call.driver().in_machine(device));
  std::memcpy(uuid->bytes, bytes.data(), bytes.size());
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return cuDeviceGetUuid_v2(uuid, device);
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  const Call call(__func__, Call::kDriver);
  if (const CUresult result = call.refused(device); result != CUDA_SUCCESS) return result;
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = call.driver().machine->spec().memory;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  const Call call(__func__, Call::kDriver);
  if (const CUresult result = call.refused(device); result != CUDA_SUCCESS) return result;
  const Driver& driver = call.driver();
  const int found = attribute_of(driver.machine->spec(), driver.in_machine(device), attribute);
  if (value == nullptr || attribute <= 0) return CUDA_ERROR_INVALID_VALUE;
  *value = found == -1 ? 0 : found;
  return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  const Call call(__func__, Call::kDriver);
  if (const CUresult result = call.refused(device); result != CUDA_SUCCESS) return result;
  if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *major = 9;
  *minor = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* id, int size, CUdevice device) {
  const Call call(__func__, Call::kDriver);
  if (const CUresult result = call.refused(device); result != CUDA_SUCCESS) return result;
  return write(id, size, bus_text(call.driver().in_machine(device)));
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* id) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (device == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < call.driver().visible.size(); ++i)
    if (bus_text(call.driver().visible[i]) == id) {
      *device = static_cast<CUdevice>(i);
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_DEVICE;
}
