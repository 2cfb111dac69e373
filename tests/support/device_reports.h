// For tests of the GPU's meter: two processes, their reports, and a device's account that a test
// writes. Not thread-safe.
#pragma once

#include <map>

#include "enforce/device_account.h"
#include "process/process_identity.h"
#include "wire/permit_page.h"

namespace sluice::node {

inline constexpr Time kStart{std::chrono::hours(1)};
inline constexpr ProcessIdentity kProcess{.pid = 7, .start_time = 1};
inline constexpr ProcessIdentity kOther{.pid = 8, .start_time = 1};

// A time so long after the beginning.
inline Time at(Nanos t) {
  return kStart + t;
}

inline sluice_device_report words(Nanos submitted, Nanos finished, Nanos seen) {
  return {.submitted_ns = static_cast<uint64_t>(submitted.count()),
          .finished_ns = static_cast<uint64_t>(finished.count()),
          .host_ns = 0,
          .longest_ns = 0,
          .seen_ns = static_cast<uint64_t>(at(seen).time_since_epoch().count()),
          .stalled = 0};
}

struct ScriptedAccount : DeviceAccount {
  std::optional<DeviceUse> latest(pid_t pid) const override {
    return uses.contains(pid) ? std::optional(uses.at(pid)) : std::nullopt;
  }
  std::optional<DeviceMemory> memory(pid_t) const override { return std::nullopt; }
  void tell(pid_t pid, Nanos from, Nanos until, Nanos busy) {
    uses[pid] = {at(from), at(until), busy, (until - from) / 100};
  }
  std::map<pid_t, DeviceUse> uses;
};

}  // namespace sluice::node
