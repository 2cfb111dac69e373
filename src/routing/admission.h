// Admission: whether a request is taken into its function's queue. A request that cannot be in
// time is refused when it arrives: in the queue it would only make the next one late.
//
// Pure values, not thread-safe: the gateway keeps a ServiceTime for each instance, and a
// ServiceTime and a LateMargin for each function, and hands in time.
#pragma once

#include <span>

#include "base/clock.h"

namespace sluice::policy {

// How long an answer takes once an instance has the request, by the number of requests that it got
// together: means and their slope over the last batches. A sample counts as at most four times the
// mean, so that one stall does not close the queue.
class ServiceTime {
 public:
  void add(int batch, Nanos sample);
  bool known() const { return time_ > 0; }
  // Returns the mean. 0: unknown.
  Nanos mean() const;
  double mean_batch() const { return size_; }
  // Returns the time of a batch of that size: between the mean (flat) and proportional to it, by
  // the slope. One size alone says nothing about others, so they count as flat. 0: unknown.
  Nanos of(int batch) const;

 private:
  double size_ = 0, time_ = 0;                 // means; time in nanoseconds
  double size_variance_ = 0, covariance_ = 0;  // of sizes; of sizes and times
};

// By how much admission must be more careful than what is expected, learnt from what it admitted:
// from requests that had to wait. One that was late adds an eighth of the objective, one in time
// takes a hundredth of that back. So about 1 % of them may be late, under overload too. Half of it
// is forgotten every ten seconds, so that nothing is refused for long because of what was once. At
// most half of the objective.
class LateMargin {
 public:
  void ended(bool late, Nanos objective, Time now);
  Nanos at(Time now) const;

 private:
  Nanos margin_{0};
  Time changed_{};
};

// An instance that may take requests now.
struct ServerView {
  int slots = 1;   // requests that it may have at once
  int free = 0;    // of them, given out now in whole batches
  int batch = 1;   // requests that it starts together
  Nanos full{0};   // how long a full batch takes; 0: unknown
  Nanos next{0};   // how long the batch of the request that asks takes
  Time free_at{};  // where a batch runs: when the first is expected to be done
};

struct Arrival {
  Time now{}, deadline{};
  int ahead = 0;  // waiting requests that go before it
  // It takes a place that would stay empty in the next batch, and hardly makes that batch longer,
  // so that no other request waits for it.
  bool fills_up = false;
};
struct Admission {
  bool admitted = true;
  Nanos retry_after{0};  // if refused: until the queue has become short enough
};

// Returns how many requests can be started so early that the one that asks, started last, is
// answered by `deadline`.
int places_by(std::span<const ServerView> servers, Time now, Time deadline);

// Returns how long the servers take for that many requests; 0 if none is known.
Nanos time_for(std::span<const ServerView> servers, int requests);

// Admits a request that starts at once, or is expected to be answered by its deadline, `margin`
// before it. The start counts instead of the answer, without a margin, if the request fills up a
// batch, or if not even an idle instance could be in time. While no service time is known, eight
// requests a slot wait for ready instances.
//
// `objective`: how long an answer may take; 0: the function has none, only the deadline counts.
Admission admit(const Arrival& arrival, std::span<const ServerView> servers, Nanos margin,
                Nanos objective);

}  // namespace sluice::policy
