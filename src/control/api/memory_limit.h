// The control process's own limit on its memory: a backstop behind the limits of what others may
// send.
#pragma once

#include "base/result.h"

namespace sluice::control {

// Call it once the stored state is read and the threads run. From then on the process may take as
// much again as it has, and 192 MiB at least; beyond, an allocation fails and the process ends. Its
// supervisor starts it again, with a limit for the state of that moment, so that a large state is
// never refused for good.
Result<void> limit_memory();

}  // namespace sluice::control
