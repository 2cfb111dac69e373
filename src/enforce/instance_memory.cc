#include "enforce/instance_memory.h"

#include <sys/resource.h>

#include <fstream>

#include "base/system_error.h"

namespace sluice::node {
namespace {

// Returns the size as a function's file writes it.
std::string in_mebibytes(Bytes size) {
  constexpr Bytes kMiB = Bytes{1} << 20;
  return std::to_string((size + kMiB - 1) / kMiB) + "Mi";
}

// Returns the size of its mapped private writable pages, touched or not: what RLIMIT_DATA counts.
Bytes data_of(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string word; status >> word;)
    if (Bytes kib = 0; word == "VmData:" && status >> kib) return kib * 1024;
  return 0;
}

}  // namespace

Bytes memory_limit(const Slice& slice, const Device& device) {
  return slice.memory > 0 ? slice.memory + kRuntimeRoom : device.memory;
}

Result<void> limit_data(pid_t process, Bytes more) {
  rlimit limit{};
  if (prlimit(process, RLIMIT_DATA, nullptr, &limit) != 0) return system_error("RLIMIT_DATA");
  if (limit.rlim_cur != RLIM_INFINITY) return {};
  limit.rlim_cur = static_cast<rlim_t>(data_of(process) + more);
  limit.rlim_max = limit.rlim_cur;
  if (prlimit(process, RLIMIT_DATA, &limit, nullptr) != 0) return system_error("RLIMIT_DATA");
  return {};
}

std::string killed_by_limit(const Slice& slice, const Device& device) {
  const std::string stated = slice.memory > 0
                                 ? "memory: " + in_mebibytes(slice.memory)
                                 : "all of " + device.id + ": " + in_mebibytes(device.memory);
  return "killed by its memory limit (" + stated + ")";
}

}  // namespace sluice::node
