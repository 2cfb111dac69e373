// A device's own account of the processes that use it: late and coarse, but not writable by them. A
// client's own reports are checked against it (meter_cuda.h, memory_ledger.h).
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>

#include "base/clock.h"
#include "model/slice.h"

namespace sluice::node {

// A process kept the device busy for so long between two moments, up to `resolution`.
struct DeviceUse {
  Time from{}, until{};
  Nanos busy{0};
  Nanos resolution{0};
  // Returns the part after a moment between the two.
  Nanos since(Time t) const {
    if (t >= until) return Nanos(0);
    return from_seconds(seconds(busy) * seconds(until - t) / seconds(until - from));
  }
};

// A process held so much of the device's memory, at that moment or after it.
struct DeviceMemory {
  Time at{};
  Bytes bytes = 0;
};

class DeviceAccount {
 public:
  virtual ~DeviceAccount() = default;

  // Returns the newest record. Returns nothing if the device does not know the process (as with all
  // clients of MPS), or while the record is being written: ask again. Never blocks, not even on a
  // lock; any thread may ask.
  virtual std::optional<DeviceUse> latest(pid_t pid) const = 0;

  // Returns the same for all processes that the device knows. For threads that may wait for a lock.
  virtual std::map<pid_t, DeviceUse> uses() const { return {}; }

  // Returns nothing if the device does not report it. Does not ask the device. For threads that may
  // wait for a lock.
  virtual std::optional<DeviceMemory> memory(pid_t pid) const = 0;
};

}  // namespace sluice::node
