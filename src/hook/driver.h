// The real driver, behind the library that stands in its place: opened at the first call of any
// entry point (real_library.h). Any thread at any time.
#pragma once

#include "abi/cuda_abi.h"
#include "hook/entry_points.h"

// The driver's own function, for hooks: jumps through the slot of that very variant. Without a
// driver it returns CUDA_ERROR_NO_DEVICE, and where the driver is too old to have it,
// CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER.
#define SLUICE_DRIVER(name) \
  extern "C" __attribute__((visibility("hidden"))) __typeof__(name) driver_##name

namespace sluice::hook {

// The address of the driver's own function; null where there is no driver, or it has no such
// function.
void* driver_function(const char* name);

}  // namespace sluice::hook
