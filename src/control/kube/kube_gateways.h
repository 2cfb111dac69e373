// KubeGateways: the gateways' part of KubeCluster (kube_cluster.h). Gateways fetch the routes from
// the API server. For the loop a gateway has the table that it was given, and is busy wherever it
// may not know that yet (route_versions.h).
//
// One thread, the loop's.
#pragma once

#include <map>
#include <set>
#include <string>

#include "control/kube/cluster_objects.h"
#include "control/kube/peer_set.h"
#include "control/kube/route_versions.h"
#include "control/peers/gateway_peer.h"

namespace sluice::control {

class KubeGateways {
 public:
  // The references outlive it. `routes_floor`: as RouteVersions'.
  KubeGateways(ClusterObjects& objects, const Clock& clock, int64_t routes_floor,
               PeerThread& thread, const ConnectPeer& connect, OrdersWait& wait, Settling& settling)
      : objects_(objects),
        clock_(clock),
        routes_(routes_floor),
        peers_(thread, connect, wait, settling) {}

  void list();
  void poll() { peers_.poll(); }
  bool settled(Nanos away) const { return peers_.settled(away); }
  // Returns all gateways, by name. `instances`: all that there are; seldom called.
  std::vector<ObservedGateway> observe(const AllInstances& instances);
  // As the Cluster's.
  Result<std::set<InstanceId>> set_routes(const std::string& name, const RoutingTable& table,
                                          const AllInstances& instances);

 private:
  struct Gateway {
    bool there = false;      // it answered the last poll
    UnixMillis started = 0;  // as it last answered
    std::set<InstanceId> busy;
    int64_t has = 0;         // its version of the routes, as the API server has them
    int64_t given = -1;      // the loop's version of the table that it was given last
    Time current_at{};       // when it last had the newest routes
    bool is_behind = false;  // for long; the log has said so
  };
  ObservedGateway observe(const std::string& name, Gateway& g, const AllInstances& instances);
  void warn_if_behind(const std::string& name, Gateway& g);

  ClusterObjects& objects_;
  const Clock& clock_;
  RouteVersions routes_;
  PeerSet<GatewayPeer> peers_;
  std::map<std::string, Gateway> gateways_;  // by name
};

}  // namespace sluice::control
