// What a device itself says that processes use of it: late and coarse, but not theirs to write.
// Against it a client's own words are checked (meter_cuda.h, memory_ledger.h).
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>

#include "base/clock.h"
#include "model/slice.h"

namespace sluice::node {

// A process kept the device busy for so long between two moments, give or take `resolution`.
struct DeviceUse {
  Time from{}, until{};
  Nanos busy{0};
  Nanos resolution{0};
  // The part after a moment between the two.
  Nanos since(Time t) const {
    if (t >= until) return Nanos(0);
    return from_seconds(seconds(busy) * seconds(until - t) / seconds(until - from));
  }
};

// A process had so much of the device's memory, at that moment or after it.
struct DeviceMemory {
  Time at{};
  Bytes bytes = 0;
};

class DeviceAccount {
 public:
  virtual ~DeviceAccount() = default;

  // The newest of which the device tells; nothing where it does not know the process, as with all
  // clients of MPS, or where it is being written down: ask again. Waits for nobody, a lock
  // included; any thread may ask.
  virtual std::optional<DeviceUse> latest(pid_t pid) const = 0;

  // The same of all processes that the device knows. Any thread that may wait for a lock.
  virtual std::map<pid_t, DeviceUse> uses() const { return {}; }

  // Nothing where the device does not say. Does not ask the device; any thread that may wait for a
  // lock.
  virtual std::optional<DeviceMemory> memory(pid_t pid) const = 0;
};

}  // namespace sluice::node
