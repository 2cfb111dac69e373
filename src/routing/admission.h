// Admission: whether a request is taken into its function's queue. A request that cannot be in
// time is refused when it arrives: in the queue it would only make the next one late.
//
// Pure values, not thread-safe: the gateway keeps one ServiceTime per instance and per function
// and hands in time.
#pragma once

#include <span>

#include "base/clock.h"

namespace sluice::policy {

// How long an answer takes once an instance has the request: smoothed mean and mean deviation with
// TCP's gains (RFC 6298). A sample counts as at most four times the mean, so that one stall does
// not close the queue.
class ServiceTime {
 public:
  void add(Nanos sample);
  bool known() const { return mean_ > Nanos(0); }
  Nanos mean() const { return mean_; }
  Nanos deviation() const { return deviation_; }  // mean absolute

 private:
  Nanos mean_{0}, deviation_{0};
};

// An instance that may take requests now.
struct ServerView {
  int slots = 1;     // requests that it may have at once
  int free = 0;      // of them, given out now in whole batches
  int batch = 1;     // requests that it starts together
  Nanos service{0};  // mean; 0: unknown
  Time free_at{};    // where none is free: when the first is expected to be
};

// Returns when a request with `ahead` others before it can start: when the first slot falls free,
// and from then on at the rate of all instances together, Σ slots ÷ service. Returns `now` if a
// slot is free or no service time is known.
Time expected_start(std::span<const ServerView> servers, int ahead, Time now);

struct Arrival {
  Time now{}, deadline{};
  int ahead = 0;  // waiting requests that go before it
};
struct Admission {
  bool admitted = true;
  Nanos retry_after{0};  // if refused: until the queue has become short enough
};

// Admits a request that starts at once, or is expected to be answered by its deadline. The answer
// takes the mean service time, a twentieth of the objective for the way to the client, and a
// margin. The margin grows with the queue, because the times of the requests before it add up:
// deviation × (1 + 3 √(ahead ÷ slots)), the deviation being at least a tenth of the mean. If not
// even an idle instance could be in time, the start counts instead of the answer. While no service
// time is known, eight requests a slot wait for ready instances.
//
// `objective`: how long an answer may take; 0: the function has none, only the deadline counts.
Admission admit(const Arrival& arrival, std::span<const ServerView> servers,
                const ServiceTime& service, Nanos objective);

}  // namespace sluice::policy
