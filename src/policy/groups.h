// The functions that decide together in a decision: those of one bundle. Pure.
#pragma once

#include <span>
#include <tuple>
#include <vector>

#include "policy/decide.h"

namespace sluice::policy {

// Functions that decide together, and their urgency.
struct Group {
  const Bundle* bundle = nullptr;
  bool violating = false;
  int priority = 0;
  std::vector<FunctionName> mine;  // by name
  std::vector<Settings> settings;
  bool due = false;  // of jobs: one of them decides now

  auto rank() const { return std::tuple(!violating, -priority, mine.front()); }
};

// Returns the groups of due inference functions: one for each bundle; if several bundles are due,
// one for each of their tiers of equal urgency. The most urgent first.
std::vector<Group> inference_groups(const Snapshot& snapshot, const PlatformPolicy& platform,
                                    std::span<const Bundle> table);

// Returns the training functions of each bundle of which one is due: a bundle's jobs are planned
// together.
std::vector<Group> job_groups(const Snapshot& snapshot, const PlatformPolicy& platform,
                              std::span<const Bundle> table);

}  // namespace sluice::policy
