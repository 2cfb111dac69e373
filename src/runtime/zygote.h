// The zygote: a process of one thread with the engines' libraries loaded. Templates are forked from
// it, one per model file. A template gives up its privileges (confinement.h), loads its model,
// warms it, and forks instances; these share its uid, and its weights, because they never write
// them. wire/zygote.h has the messages.
#pragma once

#include "base/fd.h"

namespace sluice::runtime {

// Returns the process's exit code, after the daemon's end of `control` has closed.
int run_zygote(Fd control);

}  // namespace sluice::runtime
