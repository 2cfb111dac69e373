// The Cluster of one machine: its node daemon and its gateway, over their unix sockets
// (docs/design/processes.md). Either may be away; the observation says so. The node is listed from
// its first answer on, the gateway always.
//
// No call waits for a peer that does not answer. Orders wait at most kOrdersWait together between
// two observations. So the API, on the same thread, answers a GET within 100 ms whatever a peer
// does.
#pragma once

#include <mutex>

#include "control/cluster.h"
#include "control/local/peer_calls.h"
#include "control/local/program_pages.h"

namespace sluice::control {

class LocalCluster : public Cluster {
 public:
  static constexpr Nanos kOrdersWait = Millis(75);
  static constexpr const char* kGateway = "gateway";  // its name

  // `timeout`: after which a call is given up and the next is made.
  LocalCluster(const std::string& node_socket, const std::string& gateway_socket,
               Nanos timeout = Seconds(5));

  void poll() override;
  bool settled() const override;
  void on_settled(std::function<void()> call) override;
  Observation observe() override;
  void watch_pages(const std::vector<MetricsPage>& pages) override { pages_.watch(pages); }
  Result<void> start(const StartOrder& order) override;
  Result<void> resize(const InstanceId& id, const Parts& parts) override;
  Result<void> stop(const InstanceId& id, Nanos drain) override;
  Result<void> set_drained(const DeviceId& device, bool drained) override;
  Result<std::set<InstanceId>> set_routes(const std::string& gateway,
                                          const RoutingTable& table) override;

 private:
  Result<nlohmann::json> ask(PeerCalls& peer, wire::http::verb verb, std::string_view target,
                             nlohmann::json body);
  void quiet();  // any thread: a peer has answered all its calls

  std::mutex settling_;  // guards on_settled_
  std::function<void()> on_settled_;
  PeerCalls node_, gateway_;
  ProgramPages pages_;
  Nanos left_ = kOrdersWait;  // how long orders may still wait until the next observation
  ObservedNode seen_;         // the node's last answer
  UnixMillis gateway_seen_ = 0;
  RoutingTable routes_;  // as last accepted by the gateway; version 0: unknown
  UnixMillis gateway_started_ = 0;
  int64_t told_ = 0;  // of the gateway's statistics: only later changes are requested
};

}  // namespace sluice::control
