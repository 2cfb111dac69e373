// A device's primary context, as the driver has it: CUDA's runtime makes it without us. Any thread
// at any time.
#pragma once

#include "hook/driver.h"

SLUICE_DRIVER(cuDevicePrimaryCtxGetState);
SLUICE_DRIVER(cuDevicePrimaryCtxRelease_v2);
SLUICE_DRIVER(cuDevicePrimaryCtxRetain);

namespace sluice::hook {

inline bool primary_is_active(CUdevice device) {
  unsigned flags = 0;
  int active = 0;
  return driver_cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

// Null: there is none now.
inline CUcontext primary_of(CUdevice device) {
  CUcontext context = nullptr;
  if (!primary_is_active(device) ||
      driver_cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
    return nullptr;
  driver_cuDevicePrimaryCtxRelease_v2(device);
  return context;
}

}  // namespace sluice::hook
