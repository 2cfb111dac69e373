// What live instances teach about a profile: how long they keep their device busy for an inference.
// Pure.
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

// An instance of the profile's model and type of device, and what it did in the last ten seconds.
struct Evidence {
  const Instance* instance = nullptr;
  const InstanceMeasurements* measured = nullptr;
  const Device* device = nullptr;
};

// What instances needed of their devices.
struct Need {
  double factor = 1;  // ÷ what their profile says
  double spread = 0;  // the most that it says ÷ the least, - 1
};

// Returns what all instances needed together. The sizes of their batches are not known. A profile
// says a range, from the time of a request alone to that in the largest batch that there can have
// been; within it the factor is 1. Returns nothing of instances with fewer than three inferences a
// second, and where the factor is beyond belief.
std::optional<Need> need_of(const Profile& profile, std::span<const Evidence> evidence);

// Returns the profile with what it taught (`live`, `estimated`), or nothing where that changes
// little. `before` is the need of the ten seconds before these, null if there was none.
//
//   estimate     is corrected up and down, at once the first time; its uncertainty falls to the
//                spread, but not below kRefined, nor below what the two looks are apart: it grows
//                again where they contradict it
//   measurement  becomes slower, by kMostCorrected at most, and as it was measured again; less than
//                a fifth is no correction
//
// All but that first time two needs have to agree, and the smaller correction counts.
std::optional<Profile> refined(const Profile& profile, const Need& need, const Need* before);

// Returns what that changed, for people.
Reason said_of(const Profile& before, const Profile& after);

}  // namespace sluice::control
