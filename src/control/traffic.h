// Traffic: a function's cumulative counters turned into what decisions look at: rates over a
// window, violations of late, the concurrency. Pure; stepped with what the gateway counts, a few
// times a second. A gateway that restarted counts from zero again: the step is then its count.
#pragma once

#include <deque>
#include <memory>
#include <utility>

#include "control/cluster.h"
#include "model/function.h"

namespace sluice::control {

struct TrafficTotals {  // since the function was made, over all gateways
  uint64_t requests = 0, ok = 0, invalid = 0, shed = 0, failed = 0, late = 0, cold_starts = 0,
           inferences = 0, retried = 0;
  Histogram latency;
};

class Traffic {
 public:
  // `elapsed` since the last step; `restarted`: the gateway is another one than last time.
  void step(const ObservedTraffic& now, Nanos elapsed, bool restarted);
  // The gateway is another one, and has told nothing of this function yet.
  void restart() { before_ = {}; }
  // The same with the counters of the last step: nothing was asked for. Costs next to nothing.
  void rest(Nanos elapsed);

  double rate(Nanos window) const;  // inferences per second
  double request_rate(Nanos window) const;
  double inferences_per_request() const;   // of all that were answered; at least 1
  double concurrency(Nanos window) const;  // mean of waiting + in flight
  double concurrency_peak() const;         // the largest mean over a second, of the last minute
  double arrival_cv() const;               // of the gaps of the last minute; 1 when too few
  // Late, shed, failed, timed out ÷ requests that ended, of the last `window`; 0 without any.
  double violations(Nanos window) const;
  Nanos latency(double quantile, Nanos window) const;
  int queued() const { return queued_; }
  int in_flight() const { return in_flight_; }
  // What was counted since this was last asked.
  struct Counts {
    uint64_t requests = 0, violations = 0;
  };
  Counts take() { return std::exchange(untaken_, {}); }
  const TrafficTotals& totals() const { return totals_; }
  // How often the totals changed: equal numbers mean equal totals.
  uint64_t changes() const { return changes_; }
  // What has to be kept for a loop that goes on where this one stood: the totals, and the counters
  // they were made from.
  const ObservedTraffic& last() const { return before_; }
  void restore(const TrafficTotals& totals, const ObservedTraffic& last) {
    totals_ = totals;
    before_ = last;
  }

 private:
  struct Step {
    Nanos elapsed{0};
    uint64_t requests = 0, inferences = 0, ended = 0, violations = 0, gaps = 0;
    double concurrency_seconds = 0, gap_sum = 0, gap_squares = 0;
    bool at_rest = false;                      // all are 0; it may stand for many steps
    std::shared_ptr<const Histogram> latency;  // null: nothing was answered
  };
  void keep(Step step);
  void forget_old();
  template <class Member>
  double per_second(Member member, Nanos window) const;

  std::deque<Step> steps_;  // of the last minute
  ObservedTraffic before_;
  TrafficTotals totals_;
  Counts untaken_;
  uint64_t changes_ = 0;
  int queued_ = 0, in_flight_ = 0;
};

}  // namespace sluice::control
