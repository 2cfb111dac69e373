// Makes space for a slice that its lane has only in pieces: shifts the slices in the way in time.
// That costs a running program only a little of one window; positions in space stay. Pure;
// policy::Lanes decides where a lane's instances go, and moves each as little as possible.
#pragma once

#include <functional>
#include <vector>

#include "node/ledger.h"

namespace sluice::node {

struct Shift {
  InstanceId id;
  Position to;

  bool operator==(const Shift&) const = default;
};

// Returns the shifts after which `wanted` fits on the device, for `id`, which holds a slice there
// or is to get its first one. In their order each finds its place free; the last is that of `id`
// itself. Empty if no shifts suffice. `movable`: the instances that the node may shift.
std::vector<Shift> shifts_for(const Ledger& ledger, const InstanceId& id, const DeviceId& device,
                              const Slice& wanted,
                              const std::function<bool(const InstanceId&)>& movable);

}  // namespace sluice::node
