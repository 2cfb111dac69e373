// The Cluster of one machine: its node daemon and its gateway, over their unix sockets
// (docs/design/processes.md). Either may be away; the observation says so. The node is listed from
// its first answer on, the gateway always.
//
// No call waits for a peer that does not answer. Orders wait at most OrdersWait::kMost together
// between two observations. So the API, on the same thread, answers a GET within 100 ms whatever a
// peer does.
#pragma once

#include "control/cluster.h"
#include "control/local/servers.h"
#include "control/peers/gateway_peer.h"
#include "control/peers/node_peer.h"
#include "control/peers/program_pages.h"
#include "control/peers/settling.h"

namespace sluice::control {

class LocalCluster : public Cluster {
 public:
  static constexpr const char* kGateway = "gateway";  // its name

  // `timeout`: after which a call is given up and the next is made.
  LocalCluster(const std::string& node_socket, const std::string& gateway_socket,
               Nanos timeout = Seconds(5), Servers servers = {});

  void poll() override;
  bool settled() const override;
  void on_settled(std::function<void()> call) override { settling_.call(std::move(call)); }
  Observation observe() override;
  void watch_pages(const std::vector<MetricsPage>& pages) override { pages_.watch(pages); }
  Result<void> start(const StartOrder& order) override { return node_.start(order); }
  Result<void> resize(const InstanceId& id, const Parts& parts) override {
    return node_.resize(id, parts);
  }
  Result<void> stop(const InstanceId& id, Nanos drain) override { return node_.stop(id, drain); }
  Result<void> set_drained(const DeviceId& device, bool drained) override {
    return node_.set_drained(device, drained);
  }
  Result<std::set<InstanceId>> set_routes(const std::string& gateway,
                                          const RoutingTable& table) override;

 private:
  Settling settling_;
  OrdersWait wait_;
  PeerThread thread_;
  NodePeer node_;
  GatewayPeer gateway_;
  ProgramPages pages_;
  const Servers servers_;
  std::vector<ObservedNode> divided_;  // the servers, as they last were
  ObservedNode seen_;                  // the node's last answer
};

}  // namespace sluice::control
