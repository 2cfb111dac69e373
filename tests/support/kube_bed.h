// A cluster of Kubernetes in memory, for KubeCluster: agents and gateways that serve a FakeCluster
// over unix sockets, the API server's objects, and kubelets that run the Pods when they are asked
// to.
//
// The test's thread; each agent and gateway answers on one of its own. The mutex guards the truth.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "control/kube/kube_cluster.h"
#include "tests/support/folder.h"
#include "tests/support/peers.h"

namespace sluice::control {

class MemoryObjects : public ClusterObjects {
 public:
  bool leads() const override { return is_leader; }
  bool listed() const override { return is_listed; }
  std::vector<AgentObject> agents() const override { return all_agents; }
  std::vector<GatewayObject> gateways() const override { return all_gateways; }
  std::shared_ptr<const std::vector<InstancePod>> pods() const override {
    auto all = std::make_shared<std::vector<InstancePod>>();
    for (const auto& [id, pod] : all_pods) all->push_back(pod);
    return all;
  }
  void make_pod(const PodOrder& order) override {
    const InstanceId& id = order.instance.id;
    ++orders;
    if (lose_pods) return;
    if (refuse) return failures.push_back({id, *refuse, "exceeded quota: gpus"});
    all_pods.try_emplace(id, InstancePod{.instance = id,
                                         .space = order.instance.function.space,
                                         .node = order.node,
                                         .phase = "Pending"});
    made.insert(id);
  }
  void delete_pod(const std::string& space, const InstanceId& id, Nanos grace) override {
    const auto pod = all_pods.find(id);
    if (pod == all_pods.end() || pod->second.space != space) return;
    pod->second.deleting = true;
    graces[id] = grace;
  }
  std::vector<PodFailure> take_failures() override { return std::exchange(failures, {}); }
  void put_routes(const RoutingChange& change) override {
    ++writes;
    last_since = change.since;
    if (change.since == 0) routes = {};
    apply(routes, change);
    on_routes();
  }

  bool is_leader = true;
  bool is_listed = true;
  std::vector<AgentObject> all_agents;
  std::vector<GatewayObject> all_gateways;
  std::map<InstanceId, InstancePod> all_pods;
  bool lose_pods = false;           // the controller dies before it makes them
  std::optional<ErrorKind> refuse;  // every Pod, for this
  RoutingTable routes;
  std::function<void()> on_routes = [] {};

  int orders = 0;             // of Pods
  std::set<InstanceId> made;  // all Pods that ever were
  std::map<InstanceId, Nanos> graces;
  int writes = 0;  // of routes
  int64_t last_since = -1;
  std::vector<PodFailure> failures;
};

class KubeBed {
 public:
  // Of all nodes and gateways in `truth`, whose devices are called "NODE/NAME".
  KubeBed(FakeCluster& truth, std::mutex& mutex) : truth_(truth), mutex_(mutex) {
    for (const ObservedNode& n : truth.observe().nodes) add_agent(n.node.name);
    for (const ObservedGateway& g : truth.seen.gateways) add_gateway(g.name);
    objects.on_routes = [this] { fetch_routes(); };
  }

  std::unique_ptr<KubeCluster> controller(int64_t routes_floor = 1'000'000) {
    const auto connect = [](const wire::Endpoint& at) { return wire::HttpServerAddress{at}; };
    return std::make_unique<KubeCluster>(objects, clock, connect, routes_floor);
  }
  void add_agent(const std::string& node) {
    const std::string socket = folder_.path + "/agent-" + node;
    agents.erase(node);  // it listens there
    agents[node] = std::make_unique<TestPeer>(socket, [this, node](const auto& request) {
      const std::lock_guard lock(mutex_);
      return agent_answer(node, request);
    });
    objects.all_agents.push_back({node, "unix:" + socket, "agent-of-" + node});
  }
  void add_gateway(const std::string& name) {
    const std::string socket = folder_.path + "/" + name;
    gateways[name] = std::make_unique<TestPeer>(socket, [this, name](const auto& request) {
      const std::lock_guard lock(mutex_);
      return stats_of(name, request);
    });
    objects.all_gateways.push_back({name, "unix:" + socket});
  }

  // Gateways that reach the API server fetch what it has.
  void fetch_routes() {
    const std::lock_guard lock(mutex_);
    for (const GatewayObject& g : objects.all_gateways)
      if (!cut_off.contains(g.name) && objects.routes.version > 0)
        (void)truth_.set_routes(g.name, objects.routes);
  }
  // Kubelets start the Pods that pend, whose instances are ready then, and end those that are being
  // deleted. An agent has nothing to wait for where there is no Pod.
  void run_pods() {
    const std::lock_guard lock(mutex_);
    for (auto& [id, pod] : objects.all_pods)
      if (pod.phase == "Pending" && !pod.deleting) pod.phase = "Running";
    std::erase_if(objects.all_pods, [](const auto& pod) { return pod.second.deleting; });
    for (ObservedInstance& o : truth_.seen.instances) {
      const auto pod = objects.all_pods.find(o.instance.id);
      const bool there = pod != objects.all_pods.end();
      if (o.instance.state == InstanceState::kStarting && there && pod->second.phase == "Running") {
        o.instance.state = InstanceState::kReady;
        o.ready_after_ms = 1;
      } else if (o.instance.state >= InstanceState::kReady && !there) {
        o.instance.state = InstanceState::kGone;
      }
    }
  }

  ManualClock clock;
  MemoryObjects objects;
  std::map<std::string, std::unique_ptr<TestPeer>> agents, gateways;
  std::set<std::string> asked;    // nodes whose state was read; guarded by the mutex
  std::set<std::string> cut_off;  // gateways that do not reach the API server

 private:
  // As a node daemon, which calls its devices by short names.
  wire::HttpResponse agent_answer(const std::string& node, const wire::HttpRequest& request) {
    using wire::http::verb;
    if (request.method() == verb::get) {
      asked.insert(node);
      return wire::json_response(state_of(node));
    }
    nlohmann::json body = nlohmann::json::parse(request.body());
    const auto name_fully = [&](nlohmann::json& j) {
      if (j.contains("device")) j["device"] = node + "/" + j["device"].get<std::string>();
    };
    name_fully(body);
    if (body.contains("parts"))
      for (nlohmann::json& part : body["parts"]) name_fully(part);
    wire::HttpRequest there = request;
    there.body() = body.dump();
    std::string target(request.target());
    if (const size_t at = target.find("/v1/devices/"); at == 0)
      target = "/v1/devices/" + node + "%2F" + target.substr(12);
    there.target(target);
    wire::HttpResponse answer = node_answer(truth_, there);
    // One that ends on request says so.
    if (request.method() == verb::delete_)
      if (const ObservedInstance* o = find(truth_.seen.instances, target.substr(14)))
        stopped_.insert(o->instance.id);
    return answer;
  }
  nlohmann::json state_of(const std::string& node) {
    const std::string prefix = node + "/";
    Observation o = truth_.observe();
    std::erase_if(o.nodes, [&](const auto& n) { return n.node.name != node; });
    std::erase_if(o.devices, [&](const Device& d) { return d.node != node; });
    std::erase_if(o.instances, [&](const ObservedInstance& i) { return i.node != node; });
    for (Device& d : o.devices) d.id = name_on_node(d.id, node);
    for (ObservedInstance& i : o.instances)
      for (Part& part : i.instance.parts) part.device = name_on_node(part.device, node);
    nlohmann::json state = test_state(o);
    for (size_t i = 0; i < o.instances.size(); ++i)
      state["instances"][i].update({{"stopped", stopped_.contains(o.instances[i].instance.id)},
                                    {"ready_after_ms", o.instances[i].ready_after_ms},
                                    {"error", o.instances[i].error}});
    return state;
  }
  wire::HttpResponse stats_of(const std::string& name, const wire::HttpRequest& request) {
    if (request.method() != wire::http::verb::get)
      return wire::error_response(404, "its routes come from the API server");
    for (const ObservedGateway& g : truth_.observe().gateways)
      if (g.name == name) return wire::json_response(test_stats(g));
    return wire::error_response(404, "no such gateway");
  }

  FakeCluster& truth_;
  std::mutex& mutex_;
  const TemporaryFolder folder_;
  std::set<InstanceId> stopped_;
};

}  // namespace sluice::control
