#include "runtime/environment.h"

#include <unistd.h>

#include <cstdlib>

#include "model/torch_variables.h"

namespace sluice::runtime {

void complete_environment(char** argv) {
  bool complete = true;
  for (const auto& [name, value] : kTorchVariables) {
    complete = complete && std::getenv(name) != nullptr;  // NOLINT(concurrency-mt-unsafe)
    ::setenv(name, value, 0);                             // NOLINT(concurrency-mt-unsafe)
  }
  if (!complete) ::execv("/proc/self/exe", argv);
}

}  // namespace sluice::runtime
