// The slice that this process is under, as far as NVML speaks of it: which devices it has, and what
// it holds of their memory. The devices stand in the environment, as CUDA's do, so that a program
// sees them also while no daemon runs; the rest the node daemon is asked at each call, so that
// there is nothing here that a fork, a restart or a resize could make untrue. Any thread at any
// time.
#pragma once

#include <stdint.h>

#include "nvml/library.h"
#include "wire/permit_memory.h"

namespace sluice::hook::nvml {

// How many devices the slice has; 0: this process is under none, and sees all there are.
int device_count();
inline bool in_slice() {
  return device_count() > 0;
}

// NVML's handle of the slice's n-th device, from 0.
nvmlReturn_t handle_of(unsigned device, nvmlDevice_t* handle);

// Which of the slice's devices that is; negative: none of them.
int device_of(nvmlDevice_t handle);

struct SliceMemory {
  uint64_t limit;  // 0: it is not counted
  uint64_t held;
};
// As the daemon says, or as it said last where it says nothing.
SliceMemory memory_of(int device);

// The processes that the slice's programs may see: its own.
class OwnProcesses {
 public:
  explicit OwnProcesses(int device);
  bool has(unsigned pid) const;

 private:
  uint32_t self_, count_;
  uint32_t pids_[SLUICE_MEMORY_PROCESSES];
};

}  // namespace sluice::hook::nvml
