// What live instances teach about an estimated profile: how long they kept their device busy for an inference. Pure.
#pragma once

#include <optional>

#include "control/profiles.h"
#include "model/action.h"
#include "model/instance.h"
#include "model/snapshot.h"

namespace sluice::control {

inline constexpr double kRefined = 0.2;  // within so much a refined estimate is expected to hold

// Returns the estimate times what the instance needed ÷ what was expected of it. The batches that it served are not
// known, so what lies between its largest batch and single requests is as expected. Returns nothing of a measured
// profile, of fewer than three inferences a second, or where it changes little.
std::optional<Profile> refined(const Profile& estimate, const Instance& instance,
                               const InstanceMeasurements& measured);

// Returns what that changed, for people.
Reason said_of(const Profile& before, const Profile& after);

}  // namespace sluice::control
