// Room for a slice that its lane has, but not in one piece: what lies in the way is shifted in
// time. That costs a running program nothing but a little of one window; positions in space stay.
// Pure; where a lane's instances go, and how little each moves, is policy::Lanes' to say.
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

// The shifts after which `wanted` fits on the device, for `id` that holds a slice there or is to
// get its first one. In an order in which each finds its place free; the last is of `id` itself,
// where it is to be then. Empty: none would do. `movable`: whom the node may shift.
std::vector<Shift> shifts_for(const Ledger& ledger, const InstanceId& id, const DeviceId& device,
                              const Slice& wanted,
                              const std::function<bool(const InstanceId&)>& movable);

}  // namespace sluice::node
