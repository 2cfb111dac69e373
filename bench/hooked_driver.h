// The hook over a driver whose calls do nothing (hook_driver.cc), in this process. Each is called
// by the names of its functions; the difference between the two is the hook's cost. For benchmarks
// of the hook itself.
#pragma once

#include <cstdlib>

#include "abi/cuda_abi.h"
#include "bench/library.h"

namespace sluice::bench {

struct HookedDriver {
  HookedDriver() {
    setenv("SLUICE_CUDA_DRIVER", SLUICE_HOOK_DRIVER, 1);  // read at the hook's first call
  }

  void* const driver = open_library(SLUICE_HOOK_DRIVER);
  void* const hook = open_library(SLUICE_HOOK_LIBRARY);
  // Returns how many launches of the calling thread have reached the driver.
  unsigned long (*const launched)() = function<unsigned long (*)()>(driver, "hook_driver_launched");
};

using Launch = decltype(&cuLaunchKernel);

inline CUresult launch_with(Launch launch) {
  return launch(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
}

}  // namespace sluice::bench
