// The last reports of nodes that do not answer. Pure.
#pragma once

#include "control/cluster.h"

namespace sluice::control {

// Copies the devices and instances of `now`'s unreachable nodes from the observation before, marked
// as unreachable.
void keep_unreachable(const Observation& before, Observation& now);

}  // namespace sluice::control
