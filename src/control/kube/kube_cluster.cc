#include "control/kube/kube_cluster.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"

namespace sluice::control {
namespace {

// With no grace the API server would forget the Pod before its processes have ended.
Nanos grace_of(Nanos drain) {
  return std::max<Nanos>(drain, Seconds(1));
}

std::string node_of_device(const DeviceId& device) {
  return device.substr(0, device.find('/'));
}

}  // namespace

KubeCluster::KubeCluster(ClusterObjects& objects, const Clock& clock, const ConnectPeer& connect,
                         int64_t routes_floor)
    : objects_(objects),
      clock_(clock),
      agents_(thread_, connect, wait_, settling_),
      gateways_(objects, clock, routes_floor, thread_, connect, wait_, settling_) {}

void KubeCluster::poll() {
  if (objects_.listed()) {
    list_agents();
    gateways_.list();
  }
  poll_agents();
  gateways_.poll();
}

void KubeCluster::poll_agents() {
  const Time now = clock_.now();
  const auto turns = static_cast<size_t>((now - polled_) / kPollGap);
  polled_ = now;
  for (auto& [name, agent] : nodes_)
    agent.asked = agent.moves || !agent.last.node.node.reachable || agents_.find(name) == nullptr;
  auto next = nodes_.upper_bound(last_polled_);
  for (size_t i = 0; i < std::min(std::max(turns, kLeastPolled), nodes_.size()); ++i, ++next) {
    if (next == nodes_.end()) next = nodes_.begin();
    next->second.asked = true;
    last_polled_ = next->first;
  }
  for (const auto& [name, agent] : nodes_)
    if (agent.asked) agents_.poll(name);
}

void KubeCluster::list_agents() {
  std::map<std::string, std::string> endpoints;
  for (AgentObject& a : objects_.agents()) endpoints.emplace(a.node, std::move(a.endpoint));
  agents_.list(endpoints);
  std::erase_if(nodes_, [&](const auto& node) { return !endpoints.contains(node.first); });
  std::erase_if(ordered_, [&](const auto& o) { return !endpoints.contains(o.second.node); });
  for (const auto& [name, endpoint] : endpoints)
    if (const auto [node, is_new] = nodes_.try_emplace(name); is_new)
      node->second.last.node.node = {.name = name, .reachable = false};
}

// ---- observations ------------------------------------------------------------------------------

Observation KubeCluster::observe() {
  wait_.renew();
  Observation o;
  observe_agents(o);
  for (const auto& [id, counts] : pages_.latest())
    if (ObservedInstance* instance = find_instance(o.instances, id)) instance->program = counts;
  o.gateways = gateways_.observe([this] { return instances(); });
  if (objects_.listed()) reconcile_pods(o);
  return o;
}

void KubeCluster::observe_agents(Observation& o) {
  std::vector<const ObservedInstance*> instances;
  for (auto& [name, agent] : nodes_) {
    NodeReport& last = agent.last;
    if (agent.asked) {
      std::optional<NodeReport> report;
      if (NodePeer* peer = agents_.find(name)) report = peer->take_report();
      agents_.note(name, report.has_value());
      last.node.node.reachable = report.has_value();
      if (report) note(last = std::move(*report));
      agent.moves = moves(last);
    }
    o.nodes.push_back(last.node);
    if (!last.node.node.reachable) continue;
    o.devices.insert(o.devices.end(), last.devices.begin(), last.devices.end());
    for (const ObservedInstance& i : last.instances) instances.push_back(&i);
    o.loads.insert(last.loads.begin(), last.loads.end());
  }
  std::ranges::sort(o.devices, {}, &Device::id);
  take_instances(o, std::move(instances));
}

// By id. They are sorted where they are: to move thousands of them about would cost more.
void KubeCluster::take_instances(Observation& o, std::vector<const ObservedInstance*> all) {
  std::ranges::sort(all, {},
                    [](const ObservedInstance* i) -> const InstanceId& { return i->instance.id; });
  o.instances.reserve(all.size());
  for (const ObservedInstance* i : all) o.instances.push_back(*i);
}

void KubeCluster::note(const NodeReport& report) {
  std::erase_if(ordered_, [&](const auto& o) { return o.second.node == report.node.node.name; });
  for (const Device& d : report.devices) {
    millicores_[d.id] = d.millicores;
    gpus_[d.id] = d.uuid;
  }
}

bool KubeCluster::moves(const NodeReport& report) {
  return std::ranges::any_of(report.instances, [](const ObservedInstance& o) {
    const InstanceState state = o.instance.state;
    return ours(o) && state != InstanceState::kReady;
  });
}

// What a node that does not answer had, it is assumed to have still.
Result<KubeCluster::Place> KubeCluster::place_of(const InstanceId& id) const {
  if (const auto order = ordered_.find(id); order != ordered_.end()) return order->second;
  for (const auto& [name, agent] : nodes_)
    for (const ObservedInstance& o : agent.last.instances)
      if (o.instance.id == id) return Place{name, o.instance.function.space};
  return Error{ErrorKind::kNotFound, "there is no instance '" + id + "'"};
}

std::set<InstanceId> KubeCluster::instances() const {
  std::set<InstanceId> ids;
  for (const auto& [id, place] : ordered_) ids.insert(id);
  for (const auto& [name, agent] : nodes_)
    for (const ObservedInstance& o : agent.last.instances) ids.insert(o.instance.id);
  return ids;
}

void KubeCluster::reconcile_pods(Observation& o) {
  for (const PodFailure& failure : objects_.take_failures()) pods_.failed(failure);
  const InstancePods::Plan plan = pods_.step(o, *objects_.pods(), clock_.now());
  for (const PodOrder& order : plan.make) objects_.make_pod(order);
  for (const InstancePods::Removal& r : plan.remove)
    objects_.delete_pod(r.space, r.instance, grace_of(r.grace));
  for (const InstanceId& id : plan.stop)
    if (const auto told = stop(id, Nanos(0)); !told.ok())
      log::warn("{}: {}", id, told.error().message);
  pods_.explain(o);
}

// ---- orders ------------------------------------------------------------------------------------

// A process that was stopped may find that another leads since.
Result<NodePeer*> KubeCluster::agent_on(const std::string& node) {
  if (!objects_.leads())
    return Error{ErrorKind::kUnavailable, "this controller does not lead any more"};
  if (NodePeer* agent = agents_.find(node)) {
    nodes_.at(node).moves = true;
    return agent;
  }
  if (agents_.contains(node))
    return Error{ErrorKind::kUnavailable, "no agent runs on the node '" + node + "'"};
  return Error{ErrorKind::kNotFound, "there is no node '" + node + "'"};
}

Result<NodePeer*> KubeCluster::agent_of(const InstanceId& id) {
  SLUICE_ASSIGN(place, place_of(id));
  return agent_on(place.node);
}

// An order that the agent has not answered in time may be carried out. Its Pod is made once the
// agent reports it.
Result<void> KubeCluster::start(const StartOrder& order) {
  const Instance& i = order.instance;
  const auto cores = millicores_.find(i.device());
  PodOrder pod{i, order.birth, node_of_device(i.device()),
               cores != millicores_.end() ? cores->second : 0, gpus_[i.device()]};
  SLUICE_ASSIGN(agent, agent_on(pod.node));
  Result<void> told = agent->start(order);
  if (!told.ok() && told.error().kind != ErrorKind::kTimeout) return told;
  ordered_[i.id] = {pod.node, i.function.space};
  if (told.ok()) objects_.make_pod(pod);
  pods_.ordered(std::move(pod), told.ok(), clock_.now());
  return told;
}

Result<void> KubeCluster::resize(const InstanceId& id, const Parts& parts) {
  SLUICE_ASSIGN(agent, agent_of(id));
  return agent->resize(id, parts);
}

Result<void> KubeCluster::stop(const InstanceId& id, Nanos drain) {
  SLUICE_ASSIGN(place, place_of(id));
  SLUICE_ASSIGN(agent, agent_on(place.node));
  Result<void> told = agent->stop(id, drain);
  if (!told.ok() && told.error().kind != ErrorKind::kTimeout) return told;
  const bool remove = told.ok() && pods_.may_have_pod(id);
  if (remove) objects_.delete_pod(place.space, id, grace_of(drain));
  pods_.stopped(id, drain, remove, clock_.now());
  return told;
}

Result<void> KubeCluster::set_drained(const DeviceId& device, bool drained) {
  SLUICE_ASSIGN(agent, agent_on(node_of_device(device)));
  return agent->set_drained(device, drained);
}

}  // namespace sluice::control
