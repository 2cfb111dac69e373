// The memory limit of an instance on a CPU: what its function states (`memory`) or its profile has
// measured, and room for what the runtime needs beside the model. The limit counts the instance's
// own pages; libraries and weights, which it shares with its template, are not among them.
//
// The kernel enforces the limit by the instance's cgroup. Where no memory cgroup can be written,
// limit_data() bounds the private writable memory that the process may map, and an allocation
// beyond that fails. Free functions; any thread.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "model/device.h"
#include "model/slice.h"

namespace sluice::node {

// For thread stacks, allocator arenas and bodies of requests.
inline constexpr Bytes kRuntimeRoom = Bytes{64} << 20;

// A slice that states no memory may have that of its whole device.
Bytes memory_limit(const Slice& slice, const Device& device);

// Lets the process map `more` bytes of private writable memory beyond what it has now, and keeps a
// limit that it has already: instances outlive the daemon.
Result<void> limit_data(pid_t process, Bytes more);

// Why an instance that the kernel has killed at its limit is gone.
std::string killed_by_limit(const Slice& slice, const Device& device);

}  // namespace sluice::node
