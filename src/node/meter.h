// What a client has used, as the daemon can see it itself. Asynchronous: a report may come late,
// out of order, in pieces, or never; the arbiter is made for that. Not thread-safe: the arbiter's
// thread owns every meter.
#pragma once

#include <optional>

#include "base/clock.h"
#include "node/process_identity.h"

namespace sluice::node {

struct Reading {
  Nanos busy{0};      // more than the readings before
  Time seen_until{};  // and this is all until then
};

class Meter {
 public:
  virtual ~Meter() = default;

  // What became known; call until there is nothing. `resting`: by its own word the client has
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
};

}  // namespace sluice::node
