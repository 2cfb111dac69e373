// This machine, as far as this process may use it; and how much memory a process has used.
#pragma once

#include "base/result.h"
#include "node/cpu_devices.h"

namespace sluice::node {

// Cores by the process's own affinity, memory within its control group.
Result<Machine> this_machine();

// The most that was resident at once (VmHWM); 0 when it is gone.
Bytes peak_memory(pid_t pid);

}  // namespace sluice::node
