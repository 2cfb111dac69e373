// What live instances teach about a profile: how long they keep their device busy for an inference. Pure.
#pragma once

#include <optional>
#include <span>

#include "control/profiles.h"
#include "model/action.h"
#include "model/instance.h"
#include "model/snapshot.h"

namespace sluice::control {

inline constexpr double kRefined = 0.1;  // a refined estimate is as a short profile: off by so much
inline constexpr double kMostCorrected = 2;  // times what was measured

// An instance of the profile's model and type of device, and what it did.
struct Evidence {
  const Instance* instance = nullptr;
  const InstanceMeasurements* measured = nullptr;
};

// Returns the profile's times multiplied by what the instances needed of their device ÷ what was expected of them, all
// taken together. What batches they served is not known, so what lies between the largest that they can have been and
// single requests is as expected. An estimate is corrected both ways. What was measured only becomes slower, and what was
// measured again at most: neighbours slow it down, or other requests do. Returns nothing where it changes little, and
// where fewer than three inferences a second tell.
std::optional<Profile> refined(const Profile& profile, std::span<const Evidence> evidence);

// Returns what that changed, for people.
Reason said_of(const Profile& before, const Profile& after);

}  // namespace sluice::control
