// libtorch's tensors over memory of the model store, without a copy: on the CPU, and on a GPU where
// libtorch has CUDA (bench/gpu builds this file there). Torch's headers: for engines alone.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "wire/model_store.h"

namespace sluice::runtime {

// Moves the data of these tensors into one of the store, under `name`, or, where another process
// has stored the same, gives up its own for that: nothing else changes, and whoever uses the
// tensors reads the shared copy from now on. They must not be written any more, and not outlive the
// connection. Tensors with gaps stay as they are; those over the same data share it still.
//
// Waits at most `wait_ms` for another that fills it. After an error all is as it was; kConflict:
// what is stored under that name is something else.
Result<void> share_tensors(sluice_store* store, const std::string& name,
                           const std::vector<at::Tensor>& tensors, int64_t wait_ms);

}  // namespace sluice::runtime
