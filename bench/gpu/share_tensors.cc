// share_tensors (src/runtime) for Python, as the operator sluice::share; model_sharing.py builds it
// with the installed libtorch.
#include <torch/library.h>

#include <stdexcept>

#include "runtime/stored_tensors.h"

namespace {

// Over the connection `socket`, which belongs to the store from then on, until the process ends.
void share(int64_t socket, const std::string& name, const std::vector<at::Tensor>& tensors) {
  sluice_store* store = nullptr;
  sluice_store_adopt(static_cast<int>(socket), &store);
  const auto shared = sluice::runtime::share_tensors(store, name, tensors, -1);
  if (!shared.ok()) throw std::runtime_error(shared.error().message);
}

}  // namespace

TORCH_LIBRARY(sluice, library) {
  library.def("share(int socket, str name, Tensor[] tensors) -> ()",
              [](int64_t socket, std::string name, std::vector<at::Tensor> tensors) {
                share(socket, name, tensors);
              });
}
