// InstanceGroups: what the instances of each group did. A group is the ready instances of one
// revision with equal type of device, sm, quota's request and batch. Its counters are sums of
// differences, so they keep what ended instances counted, and what an instance counted before it
// was resized stays with its former group.
//
// Plain state without side effects. One thread, the loop's.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "control/function_state.h"
#include "model/snapshot.h"

namespace sluice::control {

struct GroupKey {
  FunctionName function;
  int revision = 0;
  std::string type;
  Share sm, quota;
  int batch = 0;

  auto operator<=>(const GroupKey&) const = default;
};

class InstanceGroup {
 public:
  // Sums over its instances now. Rates are of the last ten seconds.
  struct Now {
    int instances = 0, in_flight = 0;
    double requests_per_second = 0, inferences_per_second = 0;  // answered
    double concurrency = 0;                                     // mean number of requests in hand
    // Of those that are measurably busy: how many there would be if each were always busy, and what
    // they answer.
    double busy = 0, busy_inferences_per_second = 0;
    // Of those whose programs count themselves; seconds are a second's sums over inferences.
    double counted_per_second = 0, queue_seconds = 0, compute_seconds = 0;

    bool operator==(const Now&) const = default;
  };
  // Since its first instance.
  struct Totals {
    uint64_t requests = 0, inferences = 0;
    AnswerSpread spread;
  };
  const Now& now() const { return now_; }
  const Totals& totals() const { return totals_; }
  // Returns the inferences per busy second of one instance; 0: unknown.
  double service_rate() const {
    return now_.busy > 0 ? now_.busy_inferences_per_second / now_.busy : 0;
  }
  // Return the mean time of an inference, as the programs count it; 0: unknown.
  Nanos queue() const { return counted_mean(now_.queue_seconds); }
  Nanos compute() const { return counted_mean(now_.compute_seconds); }
  // Returns the quantile of the last ten seconds' answers; 0 without any.
  Nanos latency(double quantile) const;
  // Returns the mean size of their requests' bodies; 0 without any.
  double body_bytes() const;

 private:
  friend class InstanceGroups;
  struct Second {
    std::vector<std::pair<int, uint64_t>> latency;  // the filled buckets of its histogram
    uint64_t answers = 0, bytes = 0;
  };
  Nanos counted_mean(double sum) const {
    return now_.counted_per_second > 0 ? from_seconds(sum / now_.counted_per_second) : Nanos(0);
  }
  void begin_second();
  void add(const ObservedAnswers& now, const ObservedAnswers& before);
  void add(const InstanceMeasurements& measured);

  Now now_;
  Totals totals_;
  std::deque<Second> seconds_;  // the last ten
  Time last_there_{};
};

class InstanceGroups {
 public:
  using Groups = std::map<GroupKey, InstanceGroup>;

  // Call once a second, after the instances were measured. A group without an instance is kept for
  // ten minutes, then forgotten; that of a deleted function at once.
  void step(const Observation& seen, Functions& functions, const MeasuredInstances& measured,
            Time now);
  const Groups& all() const { return groups_; }

 private:
  struct Counted {
    ObservedAnswers before;
    bool there = false;  // in this step
  };
  InstanceGroup* group_of(const ObservedInstance& o, const Observation& seen);

  Groups groups_;
  std::map<InstanceId, Counted> counted_;
};

}  // namespace sluice::control
