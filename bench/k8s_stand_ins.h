// Stand-ins for the nodes of a large cluster, for the benchmark k8s-scale: what 500 agents answer
// the controller, and what 500 kubelets write of Pods. The API server between them is real.
//
// - Agents keep instances, and run none. An instance is ready once its Pod runs, and ends with it.
// - Kubelets bind each Pod of ours, say that it runs, and end it once it is deleted.
//
// One thread, which runs the io_context.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "control/kube/objects.h"
#include "kube/client.h"
#include "model/instance.h"
#include "wire/http/http.h"

namespace sluice::bench {

std::string node_name(int index);
// The address of its agent, on the loopback device: "127.1.0.1" for node 0.
std::string agent_address(int index);

class Agents {
 public:
  explicit Agents(int nodes) : nodes_(nodes) {}

  // As GET /v1/state and the calls on instances of a node daemon. The request's Host says which.
  wire::asio::awaitable<wire::HttpResponse> answer(wire::HttpRequest request);

  void pod_runs(const InstanceId& id);
  void pod_is_gone(const InstanceId& id);
  uint64_t answered() const { return answered_; }

 private:
  struct Kept {
    Instance instance;
    bool has_pod = false;
    UnixMillis ended = 0;
  };
  struct Node {
    std::map<InstanceId, Kept> instances;
    std::string state;  // as GET /v1/state answers; empty: it has changed
  };
  wire::HttpResponse act(int index, const wire::HttpRequest& request, const std::string& id);
  wire::HttpResponse start(int index, const nlohmann::json& body);
  void write_state(int index);
  wire::HttpResponse stop(Node& node, const InstanceId& id);
  void change(const InstanceId& id, const std::function<void(Kept&)>& change);

  std::vector<Node> nodes_;
  std::map<InstanceId, int> where_;
  uint64_t answered_ = 0;
};

class Kubelets {
 public:
  Kubelets(kube::Client& client, Agents& agents) : client_(client), agents_(agents) {}

  // A function's Pod is new, or is gone.
  std::function<void(const std::string& function, bool made)> on_pod;

  void run();  // follows Pods and acts, forever
  size_t running() const { return running_.size(); }
  size_t made() const { return made_.size(); }

 private:
  void see(const nlohmann::json& object);
  void remove(const InstanceId& id);
  wire::asio::awaitable<void> work();
  wire::asio::awaitable<void> act(control::PodObject pod);
  wire::asio::awaitable<void> begin(control::PodObject pod);

  kube::Client& client_;
  Agents& agents_;
  std::map<InstanceId, std::string> made_;  // Pods that are not being deleted, with their function
  std::set<InstanceId> running_, begun_, ended_;
  std::deque<control::PodObject> due_;
};

}  // namespace sluice::bench
