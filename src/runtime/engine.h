// The seam behind which models run. A model file NAME.pt has its metadata beside it in NAME.json:
//   {"inputs": [{"name", "datatype", "shape"}], "outputs": […]}    (wire/model_description.h)
// `platform` there chooses the engine (engine.cc has the table); -1 is a variable dimension, a
// first dimension of -1 everywhere means that requests may be batched along it.
//
// Threads: a Model belongs to one thread at a time. It may be loaded and warmed before a fork and
// run after it: nothing that it keeps lives in another thread, and run() does not write to weights.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/function.h"
#include "runtime/gate.h"
#include "runtime/tensor.h"
#include "wire/model_store.h"

namespace sluice::runtime {

struct ModelFile {
  std::string name;      // what the model calls itself
  std::string platform;  // Triton's word: "pytorch_torchscript", "sluice_builtin"
  ModelSpec spec;        // spec.path: the file
};

// kNotFound without the file or its metadata, kInvalid naming what is wrong in them.
Result<ModelFile> read_model_file(const std::string& path);

class Model {
 public:
  virtual ~Model() = default;

  // Inputs in the order of the specification and fitting it; so are the outputs. Passes `gate`,
  // unless there is none, before every unit of work. kInvalid: the values are the caller's fault
  // (an index out of range).
  virtual Result<std::vector<Tensor>> run(std::span<const Tensor> inputs, Gate* gate) = 0;

  // Its weights are the store's from now on, under `name`: shared with whoever has stored the same.
  // Before any fork. After an error they are its own as before. What the engine keeps in a layout
  // of its own stays, and so does all of an engine that shares nothing.
  virtual Result<void> share_weights(sluice_store* store, const std::string& name) {
    (void)store;
    (void)name;
    return {};
  }

  // How many threads run() uses from now on. Called by the thread that runs.
  virtual void set_threads(int threads) = 0;

  // In a forked child, before anything else: random numbers must not be its siblings'.
  virtual void after_fork() {}
};

// kInvalid: truncated, not a model, or of a platform that this build does not have.
Result<std::unique_ptr<Model>> load_model(const ModelFile&);

// A batch of zeros, ungated, so that the first request finds everything in place.
Result<void> warm_up(Model&, const ModelSpec&, int batch);

}  // namespace sluice::runtime
