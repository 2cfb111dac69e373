#include "hook/launch_gate.h"

#include <stdlib.h>

SLUICE_DRIVER(cuCtxGetDevice);
SLUICE_DRIVER(cuDeviceGetCount);

namespace sluice::hook {

sluice_gate gates[kDevices];
int devices_seen;
__thread ThreadGate thread_gate;

namespace {

// Threads that come first at once all write the same.
int see_devices() {
  int count = 0;
  if (driver_cuDeviceGetCount(&count) != CUDA_SUCCESS || count <= 0) return 0;
  const char* path = getenv("SLUICE_PERMIT_SOCKET");  // NOLINT(concurrency-mt-unsafe)
  for (int device = 0; device < kDevices; ++device) {
    __atomic_store_n(&gates[device].device, static_cast<uint32_t>(device), __ATOMIC_RELAXED);
    __atomic_store_n(&gates[device].socket_path, path, __ATOMIC_RELAXED);
  }
  __atomic_store_n(&devices_seen, count, __ATOMIC_RELEASE);
  return count;
}

}  // namespace

int device_of_context() {
  int count = __atomic_load_n(&devices_seen, __ATOMIC_ACQUIRE);
  if (count == 0) count = see_devices();
  if (count <= 1) return count - 1;
  CUdevice device = 0;
  return driver_cuCtxGetDevice(&device) == CUDA_SUCCESS && device < kDevices ? device : -1;
}

}  // namespace sluice::hook
