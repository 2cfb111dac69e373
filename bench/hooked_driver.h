// The hook over a driver whose calls do nothing (hook_driver.cc), in this process; each is called
// by the names of its functions, and what one takes longer than the other is the hook's. For
// benchmarks of what the hook itself adds.
#pragma once

#include <cstdlib>

#include "bench/library.h"
#include "wire/cuda_abi.h"

namespace sluice::bench {

struct HookedDriver {
  HookedDriver() {
    setenv("SLUICE_CUDA_DRIVER", SLUICE_HOOK_DRIVER, 1);  // asked for at the hook's first call
  }

  void* const driver = open_library(SLUICE_HOOK_DRIVER);
  void* const hook = open_library(SLUICE_HOOK_LIBRARY);
  // How many launches of the calling thread have come to the driver.
  unsigned long (*const launched)() = function<unsigned long (*)()>(driver, "hook_driver_launched");
};

using Launch = decltype(&cuLaunchKernel);

inline CUresult launch_with(Launch launch) {
  return launch(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
}

}  // namespace sluice::bench
