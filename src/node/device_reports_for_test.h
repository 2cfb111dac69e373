// What the tests of the GPU's meter have in common: two processes, what stands on their pages, and
// a device's account that says what a test has it say. Not thread-safe; for tests only.
#pragma once

#include <map>

#include "node/device_account.h"
#include "node/process_identity.h"
#include "wire/permit_page.h"

namespace sluice::node {

inline constexpr Time kStart{std::chrono::hours(1)};
inline constexpr ProcessIdentity kProcess{.pid = 7, .start_time = 1};
inline constexpr ProcessIdentity kOther{.pid = 8, .start_time = 1};

// So long after the beginning.
inline Time at(Nanos t) {
  return kStart + t;
}

inline sluice_device_report words(Nanos busy, Nanos seen, Nanos in_flight) {
  return {.busy_ns = static_cast<uint64_t>(busy.count()),
          .seen_ns = static_cast<uint64_t>(at(seen).time_since_epoch().count()),
          .in_flight_ns = static_cast<uint64_t>(in_flight.count()),
          .longest_ns = 0};
}

class ScriptedAccount : public DeviceAccount {
 public:
  std::optional<DeviceUse> latest(pid_t pid) const override {
    const auto found = uses_.find(pid);
    return found == uses_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<DeviceMemory> memory(pid_t) const override { return std::nullopt; }
  void tell(pid_t pid, Nanos from, Nanos until, Nanos busy) {
    uses_[pid] = {at(from), at(until), busy, (until - from) / 100};
  }

 private:
  std::map<pid_t, DeviceUse> uses_;
};

}  // namespace sluice::node
