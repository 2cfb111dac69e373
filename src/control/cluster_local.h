// The Cluster of one machine: its node daemon and its gateway, over their unix sockets
// (docs/design/processes.md). Either may be away; the observation says so.
//
// No call waits for a peer that does not answer: look() begins an observation, which observe()
// takes as far as it has come; the other calls wait kOrdersWait together between two observations.
// So the API, on the same thread, answers a GET within 100 ms whatever a peer does.
#pragma once

#include "control/cluster.h"
#include "control/port.h"

namespace sluice::control {

class LocalCluster : public Cluster {
 public:
  static constexpr Nanos kOrdersWait = Millis(75);
  static constexpr Nanos kAway = Millis(500);  // without an answer for so long, a peer is away

  // `on_quiet`: called on another thread when a peer has answered all that it was asked.
  // `timeout`: after which a call is given up and the next is made.
  LocalCluster(const std::string& node_socket, const std::string& gateway_socket,
               std::function<void()> on_quiet, Nanos timeout = Seconds(5));

  void look();
  // Whether each peer has answered all that it was asked, or is away.
  bool settled() const;

  // A peer that has not answered the last look() is not there.
  Observation observe() override;
  Result<void> start(const StartOrder& order) override;
  Result<void> resize(const InstanceId& id, const Slice& slice, const Position& position) override;
  Result<void> stop(const InstanceId& id, Nanos drain) override;
  Result<void> set_drained(const DeviceId& device, bool drained) override;
  Result<std::set<InstanceId>> set_routes(const nlohmann::json& table) override;

 private:
  Result<nlohmann::json> ask(Port& port, wire::http::verb verb, std::string_view target,
                             nlohmann::json body);

  Port node_, gateway_;
  Nanos left_ = kOrdersWait;  // of what orders may wait until the next observation
  UnixMillis node_seen_ = 0, gateway_seen_ = 0;
  bool backstop_ = true;  // as the node said last
  std::string enforcement_;
  UnixMillis gateway_started_ = 0;
  int64_t told_ = 0;  // of the gateway's statistics: those that changed later are asked for
};

}  // namespace sluice::control
