// What a policy is handed: the cluster at one moment, its bundle's functions and their settings,
// and what it may change: its memory and the generator. decide() makes an Input; what that refers
// to outlives the decision. Plain values, not thread-safe.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "model/predictor.h"
#include "model/snapshot_index.h"
#include "policy/place/place.h"
#include "policy/settings.h"

namespace sluice::policy {

// A policy's state between decisions: numbers, by a key that names a function, a device or the
// cluster. The loop saves it. A policy must work without it: it may be lost, and that of another
// version is dropped. Times are seconds of the loop's clock.
struct Memory {
  int version = 0;
  std::map<std::string, std::vector<double>> numbers;

  // Drops empty entries, and those whose first number is a time before `least`.
  void forget_before(double least) {
    std::erase_if(numbers, [&](const auto& entry) {
      return entry.second.empty() || entry.second[0] < least;
    });
  }

  bool operator==(const Memory&) const = default;
};

struct Input {
  const Snapshot& snapshot;
  const SnapshotIndex& index;          // of that snapshot
  const Placement& placement;          // the bundle's
  std::string_view arbiter;            // that the bundle names; see arbiter_for() (place/layout.h)
  std::span<const FunctionName> mine;  // the functions that decide together, by name
  std::span<const Settings> settings;  // of each of them
  const Predictor& predictor;
  Memory& memory;
  Random& random;
  // For a plan: the devices that inference needs free of training workers, by id.
  std::span<const DeviceId> reclaimed = {};

  // Returns the snapshot's time, as a memory has it.
  double now() const { return seconds(snapshot.now.time_since_epoch()); }
};

}  // namespace sluice::policy
