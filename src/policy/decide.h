// decide: one tick over all functions. Each bundle decides for its functions and sees what the
// bundles before it have already taken, so that no room is given away twice.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "policy/bundle.h"

namespace sluice::policy {

// For the functions that are due, each by its bundle as it stands in `table`.
// REQUIRES: find_bundle(platform_bundle).
std::vector<Action> decide(const Snapshot& snapshot, std::string_view platform_bundle,
                           const Predictor& predictor, std::span<const Bundle> table = bundles());

// What the cluster is asked to become: started instances appear as starting, under the ids
// `prefix`000001, …, counted by `started`; stopped ones drain; last_scale_down is set where
// something was given back.
void carry_out(Snapshot& snapshot, std::span<const Action> actions, std::string_view prefix,
               int& started);

}  // namespace sluice::policy
