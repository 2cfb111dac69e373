// A TorchScript module that is being trained. Its parameters lie in *buckets*: contiguous numbers,
// in the reverse order of the layers, which is about the order in which a backward pass completes
// their gradients. So a bucket can be summed over the workers while the pass goes on, and the
// optimizer, a broadcast and a checkpoint see a few arrays.
//
// Only module.cc sees libtorch. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "train/arrays.h"
#include "train/checkpoints.h"

namespace sluice::train {

// Behind the last bucket's gradients, numbers that the workers sum with them, at no further cost.
inline constexpr size_t kSlots = 8;

class Module {
 public:
  // Returns kInvalid if it is no TorchScript, has no method `loss` with an argument for each array,
  // or has parameters of another type than 32-bit floats.
  static Result<std::unique_ptr<Module>> load(const std::string& path, const Arrays& data);
  ~Module();

  // The names' and shapes' summary: equal for modules whose states fit each other.
  const std::string& description() const;
  int64_t parameter_bytes() const;

  size_t buckets() const;
  // The gradients of one; the last has kSlots numbers more.
  std::span<float> gradients(size_t bucket);
  std::span<float> slots();
  double square_of_gradients(size_t bucket) const;  // Σ g², without the slots

  // Adds up the gradients of `weight` × the mean loss of these samples, from zero. Calls
  // `ready` for each bucket, in their order, once its gradients are complete, with the mean loss.
  // Returns kInvalid if the module's own code fails. No samples: zero gradients, loss 0.
  using Ready = std::function<void(size_t bucket, double loss)>;
  Result<void> backward(std::span<const uint32_t> samples, double weight, const Ready& ready);

  // One step of gradient descent with momentum: v ← μ·v + g, p ← p − rate·v. Returns kInvalid with
  // the parameter's name, and changes nothing, if a gradient or a new parameter is not finite.
  Result<void> step(double rate, double momentum);
  // Returns kInvalid with the name of a parameter or buffer that holds NaN.
  Result<void> check_numbers() const;

  // Draws in the module (dropout) depend on it from now on.
  void seed(uint64_t seed);
  // Parameters, momentum and buffers, by which a step goes on anywhere.
  std::vector<StatePiece> state();
  // Returns the inputs and outputs of `forward`, as a model's sidecar has them: JSON, found by a
  // pass of one sample of the first arrays.
  Result<std::string> signature(const Arrays& data);
  // Writes the module with its present parameters, in inference mode, whole or not at all.
  Result<void> save(const std::string& path);

 private:
  struct Torch;
  explicit Module(std::unique_ptr<Torch> torch);
  std::unique_ptr<Torch> torch_;
};

}  // namespace sluice::train
