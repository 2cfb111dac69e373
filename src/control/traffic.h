// Traffic: turns a function's cumulative counters into the inputs of decisions: rates over a
// window, recent violations, the concurrency. Pure; stepped with the gateway's counters, a few
// times a second. After a restart the gateway counts from zero again: the step is then its count.
#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "control/cluster.h"
#include "control/last_minute.h"
#include "model/snapshot.h"

namespace sluice::control {

struct TrafficTotals {  // since the function's creation, over all gateways
  uint64_t requests = 0, ok = 0, invalid = 0, shed = 0, failed = 0, late = 0, cold_starts = 0,
           inferences = 0, retried = 0;
  Histogram latency;
};

class Traffic {
 public:
  // `elapsed` since the last step; `restarted`: the gateway is another one than last time. Returns
  // the arrivals since then, in inferences.
  uint64_t step(const ObservedTraffic& now, Nanos elapsed, bool restarted);
  // The gateway is another one, and has reported nothing of this function yet.
  void restart() { before_ = {}; }
  // The same with the counters of the last step: no requests came. Costs next to nothing.
  void rest(Nanos elapsed);

  double rate(Nanos window) const;  // inferences per second
  double request_rate(Nanos window) const;
  double inferences_per_request() const;   // of all answered ones; at least 1
  double concurrency(Nanos window) const;  // mean of waiting + in flight
  double concurrency_peak() const {        // the largest mean over a second, of the last minute
    return last_minute_.concurrency_peak();
  }
  // Of the gaps between two requests.
  struct Gaps {
    Nanos mean{0};
    double cv = 1;  // coefficient of variation
  };
  Gaps gaps() const;  // of the last minute; Gaps{} if there were fewer than 10
  // Returns (late, shed, failed, timed out) ÷ requests that ended, in the last `window`; 0 without
  // any.
  double violations(Nanos window) const;
  Nanos latency(double quantile, Nanos window) const;
  LatencyQuantiles latencies() const;  // of the last 10 seconds
  int queued() const { return queued_; }
  int in_flight() const { return in_flight_; }
  // The counts since the last call.
  struct Counts {
    uint64_t requests = 0, violations = 0;
  };
  Counts take() { return std::exchange(untaken_, {}); }
  const TrafficTotals& totals() const { return totals_; }
  // Returns how often the totals changed: equal numbers mean equal totals.
  uint64_t changes() const { return changes_; }
  // Returns the state to keep for the next loop: the totals, and the counters behind them.
  const ObservedTraffic& last() const { return before_; }
  void restore(const TrafficTotals& totals, const ObservedTraffic& last) {
    totals_ = totals;
    before_ = last;
  }

 private:
  struct Step {
    Nanos elapsed{0};
    uint64_t requests = 0, inferences = 0, ended = 0, violations = 0;
    double concurrency_seconds = 0;
    bool at_rest = false;                           // all are 0; it may stand for many steps
    std::vector<std::pair<int, uint64_t>> latency;  // the filled buckets of its histogram
  };
  // The newest steps that make up the 10 seconds of latencies().
  struct Recent {
    size_t first = 0;  // of steps_
    Nanos length{0};
    Histogram latency;
  };
  void keep(Step step);
  void forget_old(Nanos added);
  template <class Member>
  double per_second(Member member, Nanos window) const;

  std::deque<Step> steps_;  // of the last minute
  Nanos held_{0};           // the sum of their lengths
  Recent recent_;
  LastMinute last_minute_;
  ObservedTraffic before_;
  TrafficTotals totals_;
  Counts untaken_;
  uint64_t changes_ = 0;
  int queued_ = 0, in_flight_ = 0;
};

}  // namespace sluice::control
