// The memory limit of an instance on a CPU: what its function states (`memory`) or its profile has
// measured, plus what the runtime needs beside the model. The limit counts the instance's own
// pages, not the libraries and weights that it shares with its template.
//
// The instance's cgroup enforces the limit. Without a writable memory cgroup, limit_data() bounds
// the private writable memory that the process may map, and an allocation beyond that fails. Free
// functions; any thread.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "model/device.h"
#include "model/slice.h"

namespace sluice::node {

// For thread stacks, allocator arenas and bodies of requests.
inline constexpr Bytes kRuntimeRoom = Bytes{64} << 20;

// Returns the slice's limit. A slice that states no memory may use that of its whole device.
Bytes memory_limit(const Slice& slice, const Device& device);

// Lets the process map `more` bytes of private writable memory beyond its current size. Keeps an
// existing limit, because instances outlive the daemon.
Result<void> limit_data(pid_t process, Bytes more);

// Returns the message for an instance that the kernel killed at its limit.
std::string killed_by_limit(const Slice& slice, const Device& device);

}  // namespace sluice::node
