// NodePeer: a node daemon as the loop sees it (docs/design/processes.md, Node API). It polls the
// daemon's state and carries out orders there.
//
// One thread, the loop's; `on_quiet` is called on another.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "control/peers/node_report.h"
#include "control/peers/orders_wait.h"

namespace sluice::control {

class NodePeer {
 public:
  // `name`: the node's in a cluster of several (name_in_cluster()); empty: the daemon's own names
  // are the cluster's. `thread` and `wait` outlive it. `on_quiet`: as PeerCalls calls it.
  NodePeer(PeerThread& thread, PeerAddress at, std::string name, OrdersWait& wait,
           std::function<void()> on_quiet);

  void poll() { calls_.poll("/v1/state"); }
  // Returns the answer to the last poll once; nothing if it did not come or was an error.
  std::optional<NodeReport> take_report();
  // Returns why the last poll that ended has failed; empty: it did not.
  const std::string& fault() const { return fault_; }
  const PeerCalls& calls() const { return calls_; }

  // As the Cluster's.
  Result<void> start(const StartOrder& order);
  Result<void> resize(const InstanceId& id, const Parts& parts);
  Result<void> stop(const InstanceId& id, Nanos drain);
  Result<void> set_drained(const DeviceId& device, bool drained);

 private:
  Result<void> order(wire::http::verb verb, const std::string& target, nlohmann::json body);
  nlohmann::json body_of(Parts parts) const;

  const std::string name_;
  OrdersWait& wait_;
  PeerCalls calls_;
  std::string fault_;
};

}  // namespace sluice::control
