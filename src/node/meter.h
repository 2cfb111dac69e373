// What a client has used, as the daemon can see it itself. Asynchronous: a report may come late,
// out of order, in pieces, or never; the arbiter is made for that. Not thread-safe: the arbiter's
// thread owns every meter.
#pragma once

#include <algorithm>
#include <optional>

#include "base/clock.h"
#include "node/process_identity.h"
#include "policy/hosted_device.h"
#include "wire/permit_page.h"

namespace sluice::node {

using policy::Reading;

class Meter {
 public:
  virtual ~Meter() = default;

  // Reads what poll() is to tell of. Called before the clock is read: the thread may lose its
  // processor in between, and use must not be taken for older than it is.
  virtual void look() {}
  // What became known; call until there is nothing. `resting`: by its own word the client starts
  // nothing on the device.
  virtual std::optional<Reading> poll(Time now, bool resting) = 0;

  // The last moment at which the meter saw the client use the device.
  virtual Time last_active() const = 0;
  // Use that is this old is seen for certain.
  virtual Nanos lag() const = 0;

  virtual void add_process(const ProcessIdentity&) {}
  virtual void remove_process(const ProcessIdentity&) {}
  // The client holds so much of the device from now on (a CPU's).
  virtual void set_millicores(int) {}

  // What a device that is not a CPU did for a process, by its own word: read once, before poll().
  virtual void report(const ProcessIdentity&, const sluice_device_report&, Time) {}
  // The client's permit begins (again), or ends.
  virtual void granted(Time) {}
  virtual void revoked(Time) {}

  // Whether the client, whose permit ended then, has nothing on the device any more. Asked until it
  // is so.
  virtual bool drained(Time now, Time revoked_at, bool resting) {
    return resting || now >= look_again(now, revoked_at);
  }
  // When to ask that again, if nothing is heard before.
  virtual Time look_again(Time /*now*/, Time revoked_at) const {
    return std::max(revoked_at, last_active()) + lag();
  }
};

}  // namespace sluice::node
