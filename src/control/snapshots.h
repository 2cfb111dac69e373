// The snapshot for policies, made from the loop's state. Pure.
#pragma once

#include "control/function_state.h"
#include "control/rollouts.h"
#include "control/starts.h"
#include "control/stops.h"
#include "model/snapshot.h"

namespace sluice::control {

struct SnapshotSettings {
  Nanos violation_window = Seconds(10);
  Nanos start_cost = Seconds(5);  // assumed of a function that never became ready
};

// Ordered instances that have not appeared count as starting; those that are to stop as draining.
// Leaves out what runs on devices that serve no functions.
Snapshot snapshot_of(const Functions& functions, const Observation& seen, const Rollouts& rollouts,
                     const Starts& starts, const Stops& stops, const SnapshotSettings& settings,
                     Time now);

}  // namespace sluice::control
