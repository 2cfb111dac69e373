// A tensor on a GPU, in this process: through the driver that it uses itself.
#pragma once

#include "wire/store_mapping.h"

namespace sluice::wire {

// SLUICE_MEMORY_CUDA: at addresses of its own; needs no context. What shares it reads alone.
Result<std::unique_ptr<StoreMapping>> map_cuda(const sluice_store_answer& answer, Fd handle);

// SLUICE_MEMORY_CUDA_LEGACY: in the context that is current, of that device. The driver knows no
// read-only there.
Result<std::unique_ptr<StoreMapping>> map_cuda_legacy(const sluice_store_answer& answer);

}  // namespace sluice::wire
