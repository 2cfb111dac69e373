// A client's use as the daemon can see it itself. Asynchronous: a report may come late, out of
// order, in pieces, or never; the arbiter is made for that. Not thread-safe: the arbiter's thread
// owns every meter.
#pragma once

#include <algorithm>
#include <optional>

#include "arbiters/hosted_device.h"
#include "base/clock.h"
#include "process/process_identity.h"
#include "wire/permit_page.h"

namespace sluice::node {

using policy::Reading;

class Meter {
 public:
  virtual ~Meter() = default;

  // Reads what poll() is to report. Called before the clock is read: the thread may lose its
  // processor in between, and use must not be taken for older than it is.
  virtual void look() {}
  // Returns the next new reading, or nothing. `resting`: the client reports that it starts nothing
  // on the device.
  virtual std::optional<Reading> poll(Time now, bool resting) = 0;

  // The last moment at which the meter saw the client use the device.
  virtual Time last_active() const = 0;
  // Use this old has certainly been seen.
  virtual Nanos lag() const = 0;

  virtual void add_process(const ProcessIdentity&) {}
  virtual void remove_process(const ProcessIdentity&) {}
  // A process of the client uses the device, by the device's own account: called several times a
  // second while that shows it.
  virtual void watch(pid_t, Time) {}
  // Use without a report, by that account: of what poll() returned.
  virtual Nanos ungated() const { return Nanos(0); }
  // The client holds so much of the device from now on (a CPU's).
  virtual void set_millicores(int) {}

  // Takes a process's own report of its work on a GPU: read once, before poll().
  virtual void report(const ProcessIdentity&, const sluice_device_report&, Time) {}
  // Returns the reports of all processes of the client: sums, and its longest unit.
  virtual policy::Progress progress() const { return {}; }

  // Returns whether the client, whose permit ended at `revoked_at`, has nothing on the device any
  // more. Called until it is true.
  virtual bool drained(Time now, Time revoked_at, bool resting) {
    return resting || now >= look_again(now, revoked_at);
  }
  // Returns when to ask drained() again, without an earlier event.
  virtual Time look_again(Time /*now*/, Time revoked_at) const {
    return std::max(revoked_at, last_active()) + lag();
  }
};

}  // namespace sluice::node
