#include "control/api/memory_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/system_error.h"

namespace sluice::control {
namespace {

constexpr rlim_t kLeast = 192U << 20;

// Returns the bytes that the kernel counts for RLIMIT_DATA; 0 if it does not say.
rlim_t data_of_this_process() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (rlim_t kilobytes = 0; word == "VmData:" && status >> kilobytes) return kilobytes << 10;
  return 0;
}

}  // namespace

Result<void> limit_memory() {
  const rlim_t data = data_of_this_process();
  rlimit limit{};
  if (data == 0) return Error{ErrorKind::kInternal, "/proc/self/status: has no VmData"};
  if (getrlimit(RLIMIT_DATA, &limit) != 0) return system_error("getrlimit");
  limit.rlim_cur = std::min(limit.rlim_max, data + std::max(kLeast, data));
  if (setrlimit(RLIMIT_DATA, &limit) != 0) return system_error("setrlimit");
  return {};
}

}  // namespace sluice::control
