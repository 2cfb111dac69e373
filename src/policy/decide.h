// decide: one tick over all functions. Each bundle decides for its functions and sees what the
// bundles before it have already taken, so that no room is given away twice.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/bundle.h"

namespace sluice::policy {

// What the platform is told to go by.
struct PlatformPolicy {
  std::string bundle = "has-gpu";  // of functions that name none
  SettingTexts settings;           // of that bundle, in place of the table's
};

using Memories = std::map<std::string, Memory, std::less<>>;  // by bundle

// A function's settings: the bundle's, with the platform's and then its own in their place. Own
// ones that cannot be read count as none: files are checked where they are read.
Settings settings_of(const Bundle& bundle, const FunctionSpec& spec,
                     const PlatformPolicy& platform);

// For the functions that are due, each by its bundle as it stands in `table`. What the policies
// remember is read from `memories` and left there.
// REQUIRES: find_bundle(platform.bundle).
std::vector<Action> decide(const Snapshot& snapshot, const PlatformPolicy& platform,
                           const Predictor& predictor, Memories& memories, Random& random,
                           std::span<const Bundle> table = bundles());

// What the cluster is asked to become: started instances appear as starting, under the ids
// `prefix`000001, …, counted by `started`; stopped ones drain; last_scale_down is set where
// something was given back.
void carry_out(Snapshot& snapshot, std::span<const Action> actions, std::string_view prefix,
               int& started);

}  // namespace sluice::policy
