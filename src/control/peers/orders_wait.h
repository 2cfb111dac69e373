// OrdersWait: how long orders may wait for their peers between two observations, all together. So
// the API, on the same thread, answers within that time whatever the peers do.
//
// One thread, the loop's.
#pragma once

#include "control/peers/peer_calls.h"

namespace sluice::control {

class OrdersWait {
 public:
  // The API answers a GET within 100 ms.
  static constexpr Nanos kMost = Millis(75);

  // An observation was made.
  void renew() { left_ = kMost; }
  // Makes a call, and waits for its answer as long as may be.
  Result<nlohmann::json> ask(PeerCalls& peer, wire::http::verb verb, std::string_view target,
                             nlohmann::json body);

 private:
  Nanos left_ = kMost;
};

}  // namespace sluice::control
