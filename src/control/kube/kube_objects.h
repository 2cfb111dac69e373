// ClusterObjects over the API server: informers of our Pods and of nodes, and writers in the
// background. Agents and gateways are Pods of the system's namespace, by their labels.
//
// Thread-safe; run() belongs to the client's io_context.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "control/kube/cluster_objects.h"
#include "control/kube/object_writer.h"
#include "control/kube/objects.h"
#include "control/kube/pod_spec.h"
#include "kube/informer.h"

namespace sluice::control {

struct KubeObjectsSettings {
  std::string space = "sluice-system";  // of agents, gateways and routes
  PodSettings pods;
  int agent_port = 7443, gateway_port = 7444;
  // Returns the UID of a function's object; empty: it is not known.
  std::function<std::string(const FunctionName&)> owner = [](const FunctionName&) {
    return std::string();
  };
};

class KubeObjects : public ClusterObjects {
 public:
  // `may_write`: whether this process leads.
  KubeObjects(kube::Client& client, KubeObjectsSettings settings, std::function<bool()> may_write);

  // Follows and writes, forever.
  void run();

  bool leads() const override { return may_write_(); }
  bool listed() const override;
  std::vector<AgentObject> agents() const override;
  std::vector<GatewayObject> gateways() const override;
  std::shared_ptr<const std::vector<InstancePod>> pods() const override;
  void make_pod(const PodOrder& order) override;
  void delete_pod(const std::string& space, const InstanceId& instance, Nanos grace) override;
  std::vector<PodFailure> take_failures() override;
  void put_routes(const RoutingChange& change) override;

 private:
  void refused(const std::string& key, const Error& error);
  void put_route(const std::string& name, nlohmann::json spec);
  void remove_route(const std::string& name);

  kube::Client& client_;
  const KubeObjectsSettings settings_;
  const std::function<bool()> may_write_;
  std::atomic<uint64_t> pod_changes_ = 0;
  kube::Informer<PodObject> instances_, platform_;
  kube::Informer<NodeObject> nodes_;
  kube::Informer<RouteName> routes_;
  ObjectWriter pod_writer_, route_writer_;

  mutable std::mutex mutex_;  // guards what follows
  std::vector<PodFailure> failures_;
  mutable std::shared_ptr<const std::vector<InstancePod>> pods_;  // null: not listed yet
  mutable uint64_t pods_at_ = 0;                                  // its pod_changes_
};

}  // namespace sluice::control
