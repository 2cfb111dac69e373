// The interface behind which models run. A model file NAME.pt has its metadata beside it in
// NAME.json:
//   {"inputs": [{"name", "datatype", "shape"}], "outputs": […]}    (wire/json/model_description.h)
// `platform` there chooses the engine (engine.cc has the table). -1 is a variable dimension; a
// first dimension of -1 everywhere means that requests may be batched along it.
//
// Threads: a Model belongs to one thread at a time. It may be loaded and warmed before a fork and
// run after it: nothing that it keeps lives in another thread, and run() does not write to weights.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/regular_file.h"
#include "base/result.h"
#include "model/function.h"
#include "runtime/gate.h"
#include "runtime/tensor.h"
#include "wire/model_store.h"

namespace sluice::runtime {

struct ModelFile {
  std::string name;      // the model's own name
  std::string platform;  // Triton's word: "pytorch_torchscript", "sluice_builtin"
  ModelSpec spec;        // spec.path: the file, for messages
  std::shared_ptr<const RegularFile> opened{};  // the process that loads it may not open it
};

// Opens the file and reads its metadata. Returns kNotFound without metadata, kInvalid without the
// file or naming the fault in them.
Result<ModelFile> read_model_file(const std::string& path);

class Model {
 public:
  virtual ~Model() = default;

  // Runs the model. Inputs and outputs are in the order of the specification and fit it. Passes
  // `gate`, unless it is null, before every unit of work. Returns kInvalid if the values are the
  // caller's fault (an index out of range).
  virtual Result<std::vector<Tensor>> run(std::span<const Tensor> inputs, Gate* gate) = 0;

  // Moves its weights into the store, under `name`: they are shared with every process that stores
  // the same. Call before any fork. After an error they are its own as before. Weights in a layout
  // of the engine's own stay, and so do all weights of an engine that shares nothing.
  virtual Result<void> share_weights(sluice_store* store, const std::string& name) {
    (void)store;
    (void)name;
    return {};
  }

  // Sets the number of threads of run() from now on. Called by the thread that runs.
  virtual void set_threads(int threads) = 0;

  // Whether the last failure of run() would befall every request: an operator that this build
  // lacks, an output of another type than the metadata says.
  virtual bool fails_always() const { return false; }

  // Called in a forked child, before anything else: random numbers must not repeat its siblings'.
  virtual void after_fork() {}
};

// Returns kInvalid for a truncated file, one that is no model, or a platform that this build lacks.
// REQUIRES: file.opened
Result<std::unique_ptr<Model>> load_model(const ModelFile&);

// Runs a batch of samples (sample.h), ungated, so that the first request finds everything in place.
// Returns why the model refused them, which says little of what requests will bring; empty: it ran.
// Returns an error if every request would fail.
Result<std::string> warm_up(Model&, const ModelSpec&, int batch);

}  // namespace sluice::runtime
