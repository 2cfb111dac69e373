// GatewaySum: several gateways' counts of a function, summed up as if one gateway had counted it. A
// gateway that restarts counts from zero again; the sum goes on.
//
// Counts from before this loop first saw a gateway are in no sum, unless the gateway started since.
// Plain state. One thread, the loop's.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "control/cluster.h"

namespace sluice::control {

class GatewaySum {
 public:
  // Takes the traffic of a gateway that answered.
  void observe(ObservedGateway& gateway);
  // Returns the sum so far; nullopt if it equals `before`, the last returned one.
  std::optional<ObservedTraffic> take(const FunctionName& f, const ObservedTraffic& before);

  // Its counts until it answers again are in no sum: as one step they would look like a burst.
  void leave_out(const std::string& gateway) { gateways_[gateway].leave_out(); }

  // Returns when each gateway started, by name, to be restored in the next loop.
  std::map<std::string, UnixMillis> started() const;
  void restore(const std::map<std::string, UnixMillis>& started);

 private:
  struct Gateway {
    UnixMillis started = 0;
    bool from_zero = true;  // all its counts are new
    std::map<FunctionName, ObservedTraffic> now, taken;

    void leave_out() { *this = {.started = started, .from_zero = false, .now = {}, .taken = {}}; }
  };
  std::map<std::string, Gateway> gateways_;
};

}  // namespace sluice::control
