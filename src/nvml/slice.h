// This process's slice, as far as NVML reports it: its devices, and what it holds of their memory.
// The devices stand in the environment, as CUDA's do, so that a program sees them also while no
// daemon runs. The rest is asked of the node daemon at each call, so that a fork, a restart or a
// resize leaves nothing stale here. Any thread may call at any time.
#pragma once

#include <stdint.h>

#include "nvml/library.h"
#include "wire/permit_memory.h"

namespace sluice::hook::nvml {

// Returns how many devices the slice has; 0 if this process has no slice, and sees all devices.
int device_count();
inline bool in_slice() {
  return device_count() > 0;
}

// Returns NVML's handle of the slice's n-th device, from 0.
nvmlReturn_t handle_of(unsigned device, nvmlDevice_t* handle);

// Returns the device's number in the slice; negative if it is none of the slice's.
int device_of(nvmlDevice_t handle);

struct SliceMemory {
  uint64_t limit;  // 0: memory is not limited
  uint64_t held;
};
// Returns the daemon's answer, or its last answer if it gives none.
SliceMemory memory_of(int device);

// The processes that the slice's programs may see: the slice's own.
class OwnProcesses {
 public:
  explicit OwnProcesses(int device);
  bool has(unsigned pid) const;

 private:
  uint32_t self_, count_;
  uint32_t pids_[SLUICE_MEMORY_PROCESSES];
};

}  // namespace sluice::hook::nvml
