// The real NVML, which this library replaces (libnvidia-ml.so.1, preloaded or mounted over the
// driver's). It is opened at the first call of any entry point (hook/real_library.h). Any thread
// may call at any time.
#pragma once

#include "abi/nvml_abi.h"

#define SLUICE_EXPORT __attribute__((visibility("default")))

// NVML's own function, for hooks: jumps through its slot. Without NVML it returns
// NVML_ERROR_LIBRARY_NOT_FOUND, and where the driver is too old to have it,
// NVML_ERROR_FUNCTION_NOT_FOUND.
#define SLUICE_NVML(name) \
  extern "C" __attribute__((visibility("hidden"))) __typeof__(name) driver_##name
