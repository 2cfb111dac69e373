// An instance: a fork of a warm template that serves its model after the daemon's Go, which comes
// once the instance is in its cgroup and its pages are there.
#pragma once

#include "base/fd.h"
#include "runtime/engine.h"
#include "wire/zygote.h"

namespace sluice::runtime {

struct InstanceFds {
  Fd listening, control, log;
};

// Runs in the forked child. Returns its exit code: 0 when it was drained. `refused`: why the model
// was not warmed up, for the instance's log; empty: it was.
int run_instance(const wire::StartInstance& start, InstanceFds fds, const ModelFile& file,
                 Model& model, const std::string& refused);

}  // namespace sluice::runtime
