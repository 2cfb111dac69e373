// reclaim: which devices inference would use if no training worker held any of them. decide() asks
// it after the inference functions, and hands the answer to the plans (Input::reclaimed). Pure.
#pragma once

#include <vector>

#include "policy/bundle.h"

namespace sluice::policy {

// Returns whether training workers hold any device.
bool has_workers(const Snapshot& snapshot);

// Returns whether the actions report a function that found no device with room.
bool lacks_devices(const std::vector<Action>& actions);

// Returns the first such function. REQUIRES: lacks_devices(actions).
FunctionName lacks_devices_for(const std::vector<Action>& actions);

// Returns the devices of which the bundle would take something, one entry for each action, if all
// workers were gone. It decides on copies of the input's memory and generator.
std::vector<DeviceId> taken_without_workers(const Bundle& bundle, const Input& before);

// Adds the devices with workers on which the bundle would start or enlarge instances beyond
// `actions`, its decision, if all workers were gone. Adds nothing if that serves no function
// better. It decides once more, on copies of the input's memory and generator as they were before.
void add_wanted(const Bundle& bundle, const Input& before, const std::vector<Action>& actions,
                std::vector<DeviceId>& devices);

// Adds the devices with workers that have an instance of a violating function, and less free area
// than the workers' requests hold.
void add_crowded(const Snapshot& snapshot, const SnapshotIndex& index,
                 std::vector<DeviceId>& devices);

}  // namespace sluice::policy
