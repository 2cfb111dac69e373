// The Cluster of one machine: its node daemon and its gateway, over their unix sockets
// (docs/design/processes.md). Either may be away; the observation says so.
#pragma once

#include "control/cluster.h"
#include "wire/http.h"

namespace sluice::control {

class LocalCluster : public Cluster {
 public:
  LocalCluster(const std::string& node_socket, const std::string& gateway_socket);

  Observation observe() override;
  Result<void> start(const StartOrder& order) override;
  Result<void> resize(const InstanceId& id, const Slice& slice, const Position& position) override;
  Result<void> stop(const InstanceId& id, Nanos drain) override;
  Result<void> set_drained(const DeviceId& device, bool drained) override;
  Result<std::set<InstanceId>> set_routes(const nlohmann::json& table) override;

 private:
  void observe_node(Observation& o);
  void observe_gateway(Observation& o);

  wire::HttpClient node_, gateway_;
  UnixMillis gateway_started_ = 0;
  int64_t told_ = 0;  // of the gateway's statistics: those that changed later are asked for
};

}  // namespace sluice::control
