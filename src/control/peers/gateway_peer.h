// GatewayPeer: a gateway as the loop sees it (docs/design/processes.md, Gateway admin API). It
// polls the gateway's statistics, only later changes from the second poll on, and can send it
// routes.
//
// One thread, the loop's; `on_quiet` is called on another.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "control/peers/gateway_report.h"
#include "control/peers/orders_wait.h"

namespace sluice::control {

class GatewayPeer {
 public:
  // `thread` and `wait` outlive it. `on_quiet`: as PeerCalls calls it.
  GatewayPeer(PeerThread& thread, PeerAddress at, std::string name, OrdersWait& wait,
              std::function<void()> on_quiet);

  void poll() { calls_.poll("/v1/stats?since=" + std::to_string(told_)); }
  // Returns the answer to the last poll, once. The gateway is not there if none came.
  ObservedGateway observe();
  // Returns why the last poll that ended has failed; empty: it did not.
  const std::string& fault() const { return fault_; }
  const PeerCalls& calls() const { return calls_; }

  // As the Cluster's. Sends only changes, if the gateway took a table before.
  Result<std::set<InstanceId>> set_routes(const RoutingTable& table);

 private:
  const std::string name_;
  OrdersWait& wait_;
  PeerCalls calls_;
  std::string fault_;
  UnixMillis seen_ = 0, started_ = 0;
  int64_t told_ = 0;     // the number of the last statistics; 0: the next ones are to be whole
  RoutingTable routes_;  // as last accepted by the gateway; version 0: unknown
};

}  // namespace sluice::control
