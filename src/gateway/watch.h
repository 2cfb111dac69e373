// How long a session may wait, and what happened meanwhile. No await has a timer of its own: a
// sweep checks every busy session each 20 ms (loop.h), marks its Watch and makes its awaits return;
// they check the marks.
//
// Belongs to its loop's thread.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>

#include "base/clock.h"

namespace sluice::gateway {

struct SessionLimits {
  size_t header_bytes = 32 * 1024;
  size_t body_bytes = 64 << 20;        // of a request
  Nanos idle = Seconds(75);            // between requests
  Nanos head = Seconds(20);            // for the rest of a head, once begun
  Nanos body_patience = Seconds(10);   // how far a body may fall behind …
  double body_rate = 64 * 1024;        // … this, in bytes a second
  Nanos stream_patience = Seconds(2);  // the same for a body larger than what is kept:
  double stream_rate = 512 * 1024;     // it must be fast before and while it holds an instance
  Nanos stall = Seconds(30);           // to take our answer, or the end of an instance's
};

class Watch : public boost::intrusive::list_base_hook<> {
 public:
  enum class List { kNone, kBusy, kIdle, kSlow };  // of its loop (loop.h)

  virtual ~Watch() = default;
  // Checks the clock and the client; ends what is overdue.
  virtual void sweep(Time now) = 0;
  // Ends the connection, to make place for another one.
  virtual void close() = 0;

  // Before each request.
  void begin() {
    deadline = Time::max();
    idle = for_client = expired = gone = false;
  }

  Time deadline = Time::max();
  bool idle = false;        // no client waits, e.g. between requests: ends when the loop stops
  bool for_client = false;  // nothing reads from the client: probe whether it is still there
  bool expired = false;     // the deadline has passed
  bool gone = false;        // the client has left
  uint64_t peer = 0;        // the client's address, hashed; 0: none
  List list = List::kNone;  // changed by the loop
};

}  // namespace sluice::gateway
