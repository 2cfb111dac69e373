// How long a session may wait, and what happened meanwhile. No await has a timer of its own: a
// sweep looks at every session each 20 ms (loop.h), marks its Watch and makes its awaits return;
// whoever awaits looks at the marks.
#pragma once

#include "base/clock.h"

namespace sluice::gateway {

struct SessionLimits {
  size_t header_bytes = 32 * 1024;
  Nanos idle = Seconds(75);           // between requests
  Nanos head = Seconds(20);           // for the rest of a head, once begun
  Nanos body_patience = Seconds(10);  // how far a body may fall behind …
  double body_rate = 64 * 1024;       // … this, in bytes a second
  Nanos stall = Seconds(30);          // to take an answer of ours, or the end of an instance's
};

struct Watch {
  Time deadline = Time::max();
  bool idle = false;        // between requests: ends when the loop stops
  bool for_client = false;  // nobody reads from the client: ask whether it is still there
  bool expired = false;     // the deadline has passed
  bool gone = false;        // the client has left
};

}  // namespace sluice::gateway
