// Memory of one GPU for the model store, by the driver; where there is none, that is an error in
// words. One thread.
#pragma once

#include <memory>
#include <string_view>

#include "node/store_memory.h"

namespace sluice::node {

// How processes come by it.
enum class CudaSharing {
  // Allocations apart from addresses, handed over as descriptors. Who made them may die, and needs
  // no context, which costs hundreds of MB; who shares them maps them read-only.
  kDescriptors,
  // CUDA IPC, for devices and systems that have nothing else. The memory is this process's: when it
  // dies, those who share it lose it.
  kLegacy,
};

// `device`: as CUDA_VISIBLE_DEVICES counts here. kUnavailable: there is no driver, or no such
// device, or it cannot share so.
Result<std::unique_ptr<StoreMemory>> cuda_memory(int device, CudaSharing sharing);

}  // namespace sluice::node
