// Why torch could not load or run a model, in a line for its user. Torch explains itself to its own
// developers, so known causes get a sentence of ours with the remedy. Included where libtorch is.
#pragma once

#include <exception>
#include <string>

#include "base/result.h"

namespace sluice::runtime {

struct TorchError {
  Error error;          // kInvalid if the caller's values are at fault
  std::string whole;    // torch's whole text, if it says more
  bool known = false;   // the sentence is ours, and the cause
  bool always = false;  // every run fails so: the values make no difference
};

TorchError explained(const std::exception& e, ErrorKind otherwise);

}  // namespace sluice::runtime
