// The zygote: a process of one thread with the engines' libraries loaded, from which templates are
// forked, one per model file; a template loads its model, warms it, and forks instances, which thus
// share its weights until they write to them, which they do not. The messages stand in
// wire/zygote.h.
#pragma once

#include "base/fd.h"

namespace sluice::runtime {

// Returns the process's exit code, when the daemon's end of `control` has closed.
int run_zygote(Fd control);

}  // namespace sluice::runtime
