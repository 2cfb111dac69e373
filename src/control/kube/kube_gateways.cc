#include "control/kube/kube_gateways.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace sluice::control {
namespace {

constexpr Nanos kBehind = Seconds(10);  // then the log says so

}  // namespace

// One whose Pod has never run has no requests: drains do not wait for it.
void KubeGateways::list() {
  std::map<std::string, std::string> endpoints;
  for (GatewayObject& g : objects_.gateways())
    if (!g.endpoint.empty() || gateways_.contains(g.name))
      endpoints.emplace(g.name, std::move(g.endpoint));
  peers_.list(endpoints);
  std::erase_if(gateways_, [&](const auto& g) { return !endpoints.contains(g.first); });
  for (const auto& [name, endpoint] : endpoints) gateways_.try_emplace(name);
}

std::vector<ObservedGateway> KubeGateways::observe(const AllInstances& instances) {
  std::vector<ObservedGateway> all;
  int64_t least = INT64_MAX;  // that a gateway has
  for (auto& [name, gateway] : gateways_) {
    all.push_back(observe(name, gateway, instances));
    least = std::min(least, gateway.has);
  }
  if (!all.empty()) routes_.all_have(least);
  return all;
}

ObservedGateway KubeGateways::observe(const std::string& name, Gateway& g,
                                      const AllInstances& instances) {
  ObservedGateway now{.name = name};
  if (GatewayPeer* peer = peers_.find(name)) now = peer->observe();
  peers_.note(name, now.there);
  g.there = now.there;
  if (!now.there) return now;
  if (now.started != g.started) g.given = -1;
  g.started = now.started;
  g.has = now.routes_version;
  g.busy = now.busy;
  routes_.see(g.has);
  warn_if_behind(name, g);
  now.routes_version = g.has > routes_.version() ? -1 : g.given;
  now.busy.merge(routes_.still_routed(g.has, instances));
  return now;
}

void KubeGateways::warn_if_behind(const std::string& name, Gateway& g) {
  const Time now = clock_.now();
  if (g.has >= routes_.version() || g.current_at == Time{}) g.current_at = now;
  const bool is_behind = now - g.current_at >= kBehind;
  if (is_behind && !g.is_behind)
    log::warn("{} has the routes of version {}, not {}: does it reach the API server?", name, g.has,
              routes_.version());
  g.is_behind = is_behind;
}

Result<std::set<InstanceId>> KubeGateways::set_routes(const std::string& name,
                                                      const RoutingTable& table,
                                                      const AllInstances& instances) {
  const auto gateway = gateways_.find(name);
  if (gateway == gateways_.end())
    return Error{ErrorKind::kNotFound, "there is no gateway '" + name + "'"};
  Gateway& g = gateway->second;
  if (!g.there) return Error{ErrorKind::kUnavailable, name + " does not answer"};
  if (const auto change = routes_.take(table)) objects_.put_routes(*change);
  g.given = table.version;
  std::set<InstanceId> busy = g.busy;
  busy.merge(routes_.still_routed(g.has, instances));
  return busy;
}

}  // namespace sluice::control
