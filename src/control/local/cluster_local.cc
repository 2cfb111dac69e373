#include "control/local/cluster_local.h"

#include <algorithm>
#include <utility>

namespace sluice::control {

LocalCluster::LocalCluster(const std::string& node_socket, const std::string& gateway_socket,
                           Nanos timeout, Servers servers)
    : node_(thread_, at_socket(node_socket, timeout), "", wait_, settling_.on_quiet()),
      gateway_(thread_, at_socket(gateway_socket, timeout), kGateway, wait_, settling_.on_quiet()),
      servers_(servers) {}

void LocalCluster::poll() {
  node_.poll();
  gateway_.poll();
}

bool LocalCluster::settled() const {
  return !node_.calls().busy_within(kAway) && !gateway_.calls().busy_within(kAway);
}

Observation LocalCluster::observe() {
  wait_.renew();
  Observation o;
  seen_.node.reachable = false;
  if (std::optional<NodeReport> report = node_.take_report()) {
    seen_ = std::move(report->node);
    o.devices = std::move(report->devices);
    o.loads = std::move(report->loads);
    o.instances = std::move(report->instances);
    std::ranges::sort(o.instances, {}, [](const ObservedInstance& i) { return i.instance.id; });
  }
  if (seen_.seen > 0) o.nodes.push_back(seen_);
  for (const auto& [id, counts] : pages_.latest())
    if (ObservedInstance* instance = find_instance(o.instances, id)) instance->program = counts;
  o.gateways.push_back(gateway_.observe());
  divide(servers_, o);
  if (!o.devices.empty()) divided_ = o.nodes;
  // While the node daemon does not answer, its servers do not.
  if (o.devices.empty() && !divided_.empty()) o.nodes = divided_;
  for (ObservedNode& n : o.nodes) n.node.reachable = seen_.node.reachable;
  return o;
}

Result<std::set<InstanceId>> LocalCluster::set_routes(const std::string& gateway,
                                                      const RoutingTable& table) {
  if (gateway != kGateway)
    return Error{ErrorKind::kNotFound, "there is no gateway '" + gateway + "'"};
  return gateway_.set_routes(table);
}

}  // namespace sluice::control
