// decide: one tick over all functions. Each bundle decides for its functions and sees what the
// earlier bundles have taken, so that nothing is given away twice. Functions that may not use every
// kind of device decide apart, over the devices that they may use.
//
// Functions that compete are served in one order: those that violate their objective, then by
// priority, then by name. If several bundles are due, each decides once for each of its tiers
// (violating or not, priority). Of two bundles in a tier, the one whose first function's name comes
// first decides first. Rectangles of a later tier count as occupied meanwhile.
//
// Training functions come after all inference functions, all of a bundle and plan together. The
// plan knows which devices inference lacked (policy/reclaim.h).
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/bundle.h"
#include "policy/loans.h"

namespace sluice::policy {

// The platform's choice of policy.
struct PlatformPolicy {
  std::string bundle = "has-gpu";  // of functions that name no bundle
  SettingTexts settings;           // of that bundle, overriding the table's
  std::string plan;  // of training functions that name none; empty: that of each one's bundle
  LoanRules loans;
};

// By bundle; those of jobs by "BUNDLE PLAN jobs".
using Memories = std::map<std::string, Memory, std::less<>>;

// Returns a function's settings: the bundle's, overridden by the platform's and then by its own. A
// training function has those of its plan, overridden by its own.
// Invalid ones of its own are ignored: files are checked where they are read.
Settings settings_of(const Bundle& bundle, const FunctionSpec& spec,
                     const PlatformPolicy& platform);

// Decides for the functions that are due, each by its bundle in `table`. The policies' state is
// read from `memories` and left there.
// REQUIRES: find_bundle(platform.bundle), and `table` has the bundles that functions name.
std::vector<Action> decide(const Snapshot& snapshot, const PlatformPolicy& platform,
                           const Predictor& predictor, Memories& memories, Random& random,
                           std::span<const Bundle> table = bundles());

// Applies actions to the snapshot: started instances appear as starting, under the ids
// `prefix`000001, …, counted by `started`; stopped ones drain; last_scale_down is set where
// something was given back.
void carry_out(Snapshot& snapshot, std::span<const Action> actions, std::string_view prefix,
               int& started);

}  // namespace sluice::policy
