// The functions that decide together in a decision: those of one bundle, and of one plan if they
// are jobs, that may use the same devices. Pure.
#pragma once

#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "policy/decide.h"

namespace sluice::policy {

// The devices that functions may use.
struct DeviceKinds {
  bool cpu = true, cuda = false;
  std::vector<std::string> types;    // of them; empty: all
  std::vector<std::string> without;  // and none of these
  bool divisible = false;            // only GPUs that MPS can divide

  bool has(const Device& d) const;
  bool overlaps(const DeviceKinds& other) const;
  auto operator<=>(const DeviceKinds&) const = default;
};
// Returns " on cpu cuda big -little divisible"; empty for all CPUs.
std::string to_string(const DeviceKinds& kinds);

// Functions that decide together, and their urgency.
struct Group {
  const Bundle* bundle = nullptr;
  const Plan* plan = nullptr;  // of jobs; nullptr: inference
  DeviceKinds kinds;
  bool violating = false;
  int priority = 0;
  std::vector<FunctionName> mine;  // by name
  std::vector<Settings> settings;
  bool due = false;  // of jobs: one of them decides now

  auto rank() const { return std::tuple(!violating, -priority, mine.front()); }
  bool is_of(const Bundle& its_bundle, const Plan* its_plan, const DeviceKinds& its_kinds) const {
    return bundle == &its_bundle && plan == its_plan && kinds == its_kinds;
  }
};

// Returns the groups of due inference functions: one for each bundle and what it may use; where two
// of them compete for devices, one for each of their tiers of equal urgency. The most urgent first.
std::vector<Group> inference_groups(const Snapshot& snapshot, const PlatformPolicy& platform,
                                    std::span<const Bundle> table);

// Returns the groups of training functions of which one is due: one for each bundle, plan and what
// they may use.
std::vector<Group> job_groups(const Snapshot& snapshot, const PlatformPolicy& platform,
                              std::span<const Bundle> table);

}  // namespace sluice::policy
