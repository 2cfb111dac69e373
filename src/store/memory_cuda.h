// Memory of one GPU for the model store, by way of the driver; without a driver, an error. One
// thread.
#pragma once

#include <memory>
#include <string_view>

#include "store/memory.h"

namespace sluice::node {

// How other processes map it.
enum class CudaSharing {
  // Allocations apart from addresses, handed over as descriptors. They survive the process that
  // made them, and need no context, which costs hundreds of MB. Sharing processes map them
  // read-only.
  kDescriptors,
  // CUDA IPC, for devices and systems without descriptors. The memory is this process's: when it
  // dies, the sharing processes lose it.
  kLegacy,
};

// `device`: in the numbering of CUDA_VISIBLE_DEVICES. Returns kUnavailable if there is no driver or
// no such device, or it cannot share memory this way.
Result<std::unique_ptr<StoreMemory>> cuda_memory(int device, CudaSharing sharing);

}  // namespace sluice::node
