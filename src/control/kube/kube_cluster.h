// The Cluster of Kubernetes: any number of agents (node daemons whose instances are Pods) and
// gateways, over their HTTP APIs, and the Pods and routes at the API server
// (docs/design/kubernetes.md).
//
// - A start is an order to the node's agent, which reserves its slice; then its Pod is made. A stop
//   is an order to the agent, and the deletion of the Pod. instance_pods.h brings the two together
//   again if the controller dies between them.
// - A device is called "NODE/NAME" here, and NAME by its agent.
// - An agent is asked each time while something starts or drains there, or was ordered; else in its
//   turn, kPollGap after the one before. So a large cluster's agents are not asked 4 times a
//   second. Between two answers, the last one counts.
// - Every Node that is to have an agent is listed, also before its agent has answered: a new loop
//   waits for it a while.
//
// One thread, the loop's. No call waits for a peer that does not answer. One more thread runs the
// calls of all peers.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "control/cluster.h"
#include "control/kube/instance_pods.h"
#include "control/kube/kube_gateways.h"
#include "control/peers/node_peer.h"
#include "control/peers/program_pages.h"

namespace sluice::control {

class KubeCluster : public Cluster {
 public:
  // The references outlive it. `routes_floor`: the wall clock's milliseconds (route_versions.h).
  KubeCluster(ClusterObjects& objects, const Clock& clock, const ConnectPeer& connect,
              int64_t routes_floor);

  void poll() override;
  bool settled() const override { return agents_.settled(kAway) && gateways_.settled(kAway); }
  void on_settled(std::function<void()> call) override { settling_.call(std::move(call)); }
  Observation observe() override;
  void watch_pages(const std::vector<MetricsPage>& pages) override { pages_.watch(pages); }
  Result<void> start(const StartOrder& order) override;
  Result<void> resize(const InstanceId& id, const Parts& parts) override;
  Result<void> stop(const InstanceId& id, Nanos drain) override;
  Result<void> set_drained(const DeviceId& device, bool drained) override;
  Result<std::set<InstanceId>> set_routes(const std::string& gateway,
                                          const RoutingTable& table) override {
    return gateways_.set_routes(gateway, table, [this] { return instances(); });
  }

 private:
  static constexpr Nanos kPollGap = Millis(2);
  static constexpr size_t kLeastPolled = 10;  // at once

  struct Agent {
    NodeReport last;     // its last answer
    bool moves = false;  // something starts or drains there, or was ordered since
    bool asked = false;  // by the last poll
  };
  // Where an instance is.
  struct Place {
    std::string node;
    std::string space;  // its namespace
  };

  void list_agents();
  void poll_agents();
  void observe_agents(Observation& o);
  void note(const NodeReport& report);
  static void take_instances(Observation& o, std::vector<const ObservedInstance*> all);
  std::set<InstanceId> instances() const;
  Result<Place> place_of(const InstanceId& id) const;
  void reconcile_pods(Observation& o);
  static bool moves(const NodeReport& report);
  // To give it an order.
  Result<NodePeer*> agent_on(const std::string& node);
  Result<NodePeer*> agent_of(const InstanceId& id);

  ClusterObjects& objects_;
  const Clock& clock_;
  Settling settling_;
  OrdersWait wait_;
  PeerThread thread_;
  PeerSet<NodePeer> agents_;            // by node
  std::map<std::string, Agent> nodes_;  // by name
  std::string last_polled_;             // the last node whose turn it was
  Time polled_{};
  KubeGateways gateways_;
  InstancePods pods_;
  std::map<DeviceId, int> millicores_;    // of CPU devices, as last observed
  std::map<DeviceId, std::string> gpus_;  // their UUIDs, likewise
  std::map<InstanceId, Place> ordered_;   // since their agents' last answers
  ProgramPages pages_;
};

}  // namespace sluice::control
