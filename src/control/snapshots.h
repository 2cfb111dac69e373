// The snapshot for policies, made from the loop's state. Pure.
#pragma once

#include <vector>

#include "control/function_state.h"
#include "control/rollouts.h"
#include "control/starts.h"
#include "control/stops.h"
#include "model/snapshot.h"

namespace sluice::control {

struct SnapshotSettings {
  Nanos violation_window = Seconds(10);
  Nanos start_cost = Seconds(5);  // assumed of a function that never became ready
  UnixMillis wall = 0;
};

// What differs between a snapshot and the one before it. The times of last requests do not count:
// under load they change in every tick.
struct SnapshotChanges {
  std::vector<bool> functions;  // by position: its view or one of its instances, also an ended one
  bool instances = false;       // any of them
  bool devices = false;         // any of them, or a node
};

// Brings the snapshot of an earlier tick up to date; of a new loop it is empty. Little changes from
// tick to tick, and a copy of everything would cost the most.
//
// Ordered instances that have not appeared count as starting; those that are to stop as draining.
// Does not touch `due` and `measured`.
SnapshotChanges update(Snapshot& snapshot, const Functions& functions, const Observation& seen,
                       const Rollouts& rollouts, const Starts& starts, const Stops& stops,
                       const SnapshotSettings& settings, Time now);

}  // namespace sluice::control
