// This machine, as far as this process may use it, and the memory that a process has used.
#pragma once

#include "base/result.h"
#include "node/cpu_devices.h"

namespace sluice::node {

// Cores by the process's own affinity, memory within its control group.
Result<Machine> this_machine();

// Returns the peak resident memory (VmHWM); 0 if the process is gone.
Bytes peak_memory(pid_t pid);

}  // namespace sluice::node
