// Counts: when the loop last counted requests and holdings, and what it has counted since. A
// restarted loop continues from the earlier one's counts, so nothing is counted twice.
//
// Plain state without side effects. One thread, the loop's.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "control/accounting.h"
#include "control/function_state.h"
#include "control/gateway_sum.h"
#include "control/journal.h"

namespace sluice::control {

class Counts {
 public:
  explicit Counts(Nanos account_every) : account_every_(account_every) {}

  // Takes the counters of an observation and keeps them until the next count().
  void observe(std::vector<ObservedGateway>& gateways);
  // Counts requests since the last count, by differences of the gateways' counters. While a gateway
  // does not answer nothing is counted, and rates stay as they are: the next count covers all that
  // time. Once it has been away for ten seconds the others are counted without it.
  void count(const Observation& seen, Functions& functions, Time now, UnixMillis wall);
  // The function was deleted. The gateway counts on for a moment, or longer where requests are
  // open: one of that name that is created within a minute begins at its `last` counters.
  void forget(const FunctionName& f, const ObservedTraffic& last, Time now);
  // Returns whether the last count() saw all requests, except those of a gateway that is long away.
  bool countable() const { return countable_; }
  // Counts holdings and use, the rates and latencies, once a second. Returns whether a second has
  // passed.
  bool account(const Observation& seen, Functions& functions, Accounting& accounting, Time now,
               UnixMillis wall);

  // The rates of seconds that the journal lacks.
  const std::vector<RateSample>& rates() const { return rates_; }
  void written();      // the journal has them now
  void not_written();  // the journal failed; only so many are kept

  nlohmann::json to_json() const;
  void restore(const nlohmann::json& j);

 private:
  // When a count was last done; on the wall clock, also across a restart.
  struct Done {
    Time at{};
    UnixMillis wall = 0;
  };
  static std::optional<Nanos> since(Done& last, Nanos least, Time now, UnixMillis wall);
  void keep(std::vector<ObservedTraffic>&& traffic);
  void count_one(const ObservedGateway& gateway, Functions& functions, Nanos elapsed, Time now,
                 UnixMillis wall);
  void count_several(Functions& functions, Nanos elapsed, Time now, UnixMillis wall);

  const Nanos account_every_;
  Done counted_, accounted_;
  Time all_there_{};  // when all gateways last answered
  bool countable_ = false;
  // For a cluster of one gateway: changes since the last count, by function.
  std::vector<ObservedTraffic> uncounted_;
  struct Deleted {
    ObservedTraffic last;
    Time at{};
  };
  std::map<FunctionName, Deleted> deleted_;
  std::string gateway_;
  UnixMillis gateway_started_ = 0;
  std::optional<GatewaySum> sum_;  // for a cluster that has had several
  std::vector<RateSample> rates_;
};

}  // namespace sluice::control
