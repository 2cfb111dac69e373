#include "control/kube/kube_objects.h"

#include <algorithm>

#include "base/log.h"
#include "control/kube/route_objects.h"
#include "kube/wait.h"

namespace sluice::control {
namespace {

using nlohmann::json;

constexpr const char* kPodsPath = "/api/v1/pods";
constexpr const char* kOurs =
    "labelSelector=app.kubernetes.io%2Fmanaged-by%3Dsluice,sluice.dev%2Finstance";
constexpr const char* kPlatform = "labelSelector=app.kubernetes.io%2Fpart-of%3Dsluice";
constexpr const char* kComponent = "app.kubernetes.io/name";
constexpr int kPodWriters = 8;  // orders of different Pods at once

std::string pod_key(const std::string& space, const InstanceId& id) {
  return space + "/" + id;
}

std::string at_port(const PodObject& pod, int port) {
  const bool runs = !pod.ip.empty() && pod.phase == "Running";
  return runs ? pod.ip + ":" + std::to_string(port) : "";
}

bool is_component(const PodObject& pod, const char* name) {
  const auto found = pod.labels.find(kComponent);
  return found != pod.labels.end() && found->second == name;
}

// A Pod that the API server refuses as it is would be refused again; a namespace may take it later.
ErrorKind failure_kind(const Error& e) {
  if (e.kind != ErrorKind::kDenied) return e.kind;
  return e.message.find("exceeded quota") != e.message.npos ? ErrorKind::kExhausted
                                                            : ErrorKind::kDenied;
}

}  // namespace

KubeObjects::KubeObjects(kube::Client& client, KubeObjectsSettings settings,
                         std::function<bool()> may_write)
    : client_(client),
      settings_(std::move(settings)),
      may_write_(std::move(may_write)),
      instances_(client, kPodsPath, kOurs, [this] { ++pod_changes_; }),
      platform_(client, path_in(kPodsPath, settings_.space), kPlatform),
      nodes_(client, "/api/v1/nodes"),
      routes_(client, path_in(kRoutesPath, settings_.space)),
      pod_writer_(client, may_write_,
                  [this](const std::string& key, const Error& e) { refused(key, e); }),
      route_writer_(client, may_write_, {}, ObjectWriter::Again::kFirst) {}

void KubeObjects::run() {
  const auto begin = [this](boost::asio::awaitable<void> work) {
    kube::spawn(client_.io(), std::move(work));
  };
  begin(instances_.run());
  begin(platform_.run());
  begin(nodes_.run());
  begin(routes_.run());
  for (int i = 0; i < kPodWriters; ++i) begin(pod_writer_.run());
  begin(route_writer_.run());  // one: routes are written in their order
}

bool KubeObjects::listed() const {
  return instances_.synced() && platform_.synced() && nodes_.synced() && routes_.synced();
}

std::vector<AgentObject> KubeObjects::agents() const {
  std::map<std::string, AgentObject> all;
  for (const auto& [key, node] : nodes_.all())
    if (node->has_agent) all[node->name] = {.node = node->name};
  for (const auto& [key, pod] : platform_.all()) {
    if (!is_component(*pod, "sluice-agent") || pod->node.empty()) continue;
    AgentObject& agent = all[pod->node];
    if (std::string at = at_port(*pod, settings_.agent_port); !at.empty() || agent.endpoint.empty())
      agent = {pod->node, std::move(at), pod->name};
  }
  std::vector<AgentObject> out;
  for (auto& [node, agent] : all) out.push_back(std::move(agent));
  return out;
}

std::vector<GatewayObject> KubeObjects::gateways() const {
  std::vector<GatewayObject> out;
  for (const auto& [key, pod] : platform_.all())
    if (is_component(*pod, "sluice-gateway") && pod->phase != "Failed" && pod->phase != "Succeeded")
      out.push_back({pod->name, at_port(*pod, settings_.gateway_port)});
  return out;
}

std::shared_ptr<const std::vector<InstancePod>> KubeObjects::pods() const {
  const uint64_t now = pod_changes_;  // before the listing: a later change makes another one
  const std::lock_guard lock(mutex_);
  if (pods_ && pods_at_ == now) return pods_;
  std::vector<InstancePod> out;
  for (const auto& [key, pod] : instances_.all()) {
    InstancePod p{.instance = pod->name,
                  .space = pod->space,
                  .node = pod->node,
                  .phase = pod->phase,
                  .reason = pod->reason,
                  .message = pod->message,
                  .by_cluster = pod->by_cluster,
                  .deleting = pod->deleting};
    if (const auto at = pod->annotations.find(kNodeAnnotation); at != pod->annotations.end())
      p.node = at->second;
    out.push_back(std::move(p));
  }
  pods_at_ = now;
  pods_ = std::make_shared<const std::vector<InstancePod>>(std::move(out));
  return pods_;
}

void KubeObjects::make_pod(const PodOrder& order) {
  const FunctionName& function = order.instance.function;
  pod_writer_.put(pod_key(function.space, order.instance.id),
                  kube::Call(kube::verb::post, path_in(kPodsPath, function.space),
                             pod_of(order, settings_.pods, settings_.owner(function))));
}

void KubeObjects::delete_pod(const std::string& space, const InstanceId& instance, Nanos grace) {
  const auto seconds = std::max<int64_t>(grace / Seconds(1), 1);
  pod_writer_.put(
      pod_key(space, instance),
      kube::Call(
          kube::verb::delete_, path_in(kPodsPath, space, instance),
          {{"kind", "DeleteOptions"}, {"apiVersion", "v1"}, {"gracePeriodSeconds", seconds}}));
}

void KubeObjects::refused(const std::string& key, const Error& e) {
  if (e.kind == ErrorKind::kConflict) return;  // it is there already
  log::warn("Pod {}: {}", key, e.message);
  const std::lock_guard lock(mutex_);
  failures_.push_back({key.substr(key.find('/') + 1), failure_kind(e), e.message});
}

std::vector<PodFailure> KubeObjects::take_failures() {
  const std::lock_guard lock(mutex_);
  return std::exchange(failures_, {});
}

void KubeObjects::put_routes(const RoutingChange& change) {
  std::set<std::string> there{kTableObject};
  for (const auto& [served, route] : change.changed) {
    const std::string name = route_object_name(route.name);
    there.insert(name);
    put_route(name, route_spec(change.version, &route));
  }
  for (const FunctionName& f : change.removed) remove_route(route_object_name(f));
  if (change.since == 0)
    for (const auto& [key, route] : routes_.all())
      if (!there.contains(route->name)) remove_route(route->name);
  put_route(kTableObject, route_spec(change.version, nullptr));
}

void KubeObjects::put_route(const std::string& name, json spec) {
  const std::string path = path_in(kRoutesPath, settings_.space, name);
  route_writer_.put(
      path,
      kube::Call(kube::verb::patch, path + "?fieldManager=sluice-controller&force=true",
                 {{"apiVersion", kGroup},
                  {"kind", "FunctionRoute"},
                  {"metadata", {{"name", name}, {"namespace", settings_.space}}},
                  {"spec", std::move(spec)}},
                 kube::kApply),
      name == kTableObject);
}

void KubeObjects::remove_route(const std::string& name) {
  const std::string path = path_in(kRoutesPath, settings_.space, name);
  route_writer_.put(path, kube::Call(kube::verb::delete_, path));
}

}  // namespace sluice::control
