#include "runtime/environment.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace sluice::runtime {
namespace {

// Waiting OpenMP threads must sleep (spinning on shared cores: 126 times slower); activations must
// not go back to the kernel after each inference (2 times); no warnings from torch's logger.
constexpr std::pair<const char*, const char*> kEnvironment[] = {
    {"OMP_WAIT_POLICY", "passive"},
    {"MALLOC_TRIM_THRESHOLD_", "4000000000"},
    {"MALLOC_MMAP_THRESHOLD_", "4000000000"},
    {"MALLOC_TOP_PAD_", "268435456"},
    {"GLOG_minloglevel", "2"},
};

}  // namespace

void complete_environment(char** argv) {
  bool complete = true;
  for (const auto& [name, value] : kEnvironment) {
    complete = complete && std::getenv(name) != nullptr;  // NOLINT(concurrency-mt-unsafe)
    ::setenv(name, value, 0);                             // NOLINT(concurrency-mt-unsafe)
  }
  if (!complete) ::execv("/proc/self/exe", argv);
}

}  // namespace sluice::runtime
