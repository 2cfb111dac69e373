// A tensor on a GPU, in this process, through the driver that the process itself uses.
#pragma once

#include "wire/store_mapping.h"

namespace sluice::wire {

// SLUICE_MEMORY_CUDA: at addresses of its own; needs no context. Sharing processes may only read.
Result<std::unique_ptr<StoreMapping>> map_cuda(const sluice_store_answer& answer, Fd handle);

// SLUICE_MEMORY_CUDA_LEGACY: in the current context, of that device. The driver has no read-only
// mapping for it.
Result<std::unique_ptr<StoreMapping>> map_cuda_legacy(const sluice_store_answer& answer);

}  // namespace sluice::wire
