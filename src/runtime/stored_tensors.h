// libtorch's tensors over memory of the model store, without a copy: on the CPU, and on a GPU if
// libtorch has CUDA (bench/gpu builds this file there). Includes torch's headers: only for engines.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "wire/model_store.h"

namespace sluice::runtime {

// Moves the data of these tensors into one tensor of the store, under `name`; if another process
// has stored the same, drops the own data in favour of that. Nothing else changes: users of the
// tensors read the shared copy from now on. The tensors must no longer be written, and must not
// outlive the connection. Tensors with gaps stay as they are; tensors over the same data still
// share it.
//
// Waits at most `wait_ms` for another process that fills it. After an error all is as before;
// kConflict: the name holds something else.
Result<void> share_tensors(sluice_store* store, const std::string& name,
                           const std::vector<at::Tensor>& tensors, int64_t wait_ms);

}  // namespace sluice::runtime
