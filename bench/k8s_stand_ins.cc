#include "bench/k8s_stand_ins.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "base/log.h"
#include "control/kube/pod_spec.h"
#include "kube/informer.h"
#include "wire/http/await.h"
#include "wire/json/json.h"

namespace sluice::bench {
namespace {

using nlohmann::json;
using wire::http::verb;

constexpr int kWorkers = 16;
constexpr int kHosts = 250;  // addresses of one /24

int index_of(std::string_view host) {
  int third = 0, fourth = 0;
  if (std::sscanf(std::string(host).c_str(), "127.1.%d.%d", &third, &fourth) != 2) return -1;
  return third * kHosts + fourth - 1;
}

// A node of 16 cores.
json device_of(const std::string& node) {
  const Device device{.id = "cpu0", .node = node, .millicores = 16'000, .memory = Bytes{64} << 30};
  return wire::to_json(device);
}

}  // namespace

std::string node_name(int index) {
  return "node" + std::to_string(1000 + index);
}

std::string agent_address(int index) {
  return "127.1." + std::to_string(index / kHosts) + "." + std::to_string(index % kHosts + 1);
}

// ---- agents ------------------------------------------------------------------------------------

wire::asio::awaitable<wire::HttpResponse> Agents::answer(wire::HttpRequest request) {
  ++answered_;
  const int index = index_of(std::string(request[wire::http::field::host]));
  const auto target = wire::parse_target(request.target());
  if (index < 0 || index >= static_cast<int>(nodes_.size()) || !target.ok())
    co_return wire::error_response(404, "there is no such node");
  if (request.method() != verb::get) {
    const std::string id = target->path.size() > 2 ? target->path[2] : "";
    co_return act(index, request, id);
  }
  if (nodes_[index].state.empty()) write_state(index);
  co_return wire::text_response(nodes_[index].state, "application/json");
}

void Agents::write_state(int index) {
  Node& node = nodes_[index];
  json state{{"boot_id", "boot"},
             {"devices", json::array({device_of(node_name(index))})},
             {"instances", json::array()}};
  for (const auto& [id, kept] : node.instances) {
    json one = wire::to_json(kept.instance);
    one.update({{"socket", agent_address(index) + ":8080"},
                {"ready_after_ms", kept.instance.state == InstanceState::kStarting ? 0 : 5},
                {"ended", kept.ended},
                {"stopped", kept.ended > 0}});
    state["instances"].push_back(std::move(one));
  }
  node.state = state.dump();
}

wire::HttpResponse Agents::act(int index, const wire::HttpRequest& request, const std::string& id) {
  Node& node = nodes_[index];
  node.state.clear();
  const json body = json::parse(request.body(), nullptr, false);
  if (request.method() == verb::post) return start(index, body);
  if (request.method() == verb::delete_) return stop(node, id);
  const auto found = node.instances.find(id);
  if (found == node.instances.end()) return wire::error_response(404, "there is no instance");
  Parts parts;
  for (const json& part : body.value("parts", json::array({body})))
    if (const auto read = wire::part_from(part); read.ok()) parts.push_back(*read);
  found->second.instance.parts = parts;
  return wire::json_response(json::object());
}

wire::HttpResponse Agents::start(int index, const json& body) {
  auto instance = wire::instance_from(body);
  if (!instance.ok()) return wire::error_response(instance.error());
  const InstanceId id = instance->id;
  instance->state = InstanceState::kStarting;
  nodes_[index].instances.try_emplace(id, Kept{.instance = std::move(*instance)});
  where_[id] = index;
  return wire::json_response(json::object(), 202);
}

wire::HttpResponse Agents::stop(Node& node, const InstanceId& id) {
  const auto found = node.instances.find(id);
  if (found == node.instances.end()) return wire::error_response(404, "there is no instance");
  Kept& kept = found->second;
  if (kept.instance.state == InstanceState::kGone) {
    node.instances.erase(found);
    where_.erase(id);
  } else if (kept.has_pod) {
    kept.instance.state = InstanceState::kDraining;
  } else {
    kept.instance.state = InstanceState::kGone;
    kept.ended = unix_now();
  }
  return wire::json_response(json::object(), 202);
}

void Agents::change(const InstanceId& id, const std::function<void(Kept&)>& change) {
  const auto node = where_.find(id);
  if (node == where_.end()) return;
  const auto kept = nodes_[node->second].instances.find(id);
  if (kept == nodes_[node->second].instances.end()) return;
  change(kept->second);
  nodes_[node->second].state.clear();
}

void Agents::pod_runs(const InstanceId& id) {
  change(id, [](Kept& kept) {
    kept.has_pod = true;
    if (kept.instance.state == InstanceState::kStarting)
      kept.instance.state = InstanceState::kReady;
  });
}

void Agents::pod_is_gone(const InstanceId& id) {
  change(id, [](Kept& kept) {
    kept.has_pod = false;
    kept.instance.state = InstanceState::kGone;
    kept.ended = unix_now();
  });
}

// ---- kubelets ----------------------------------------------------------------------------------

void Kubelets::run() {
  kube::WatchSink sink{.set = [this](const json& o) { see(o); },
                       .remove = [this](const kube::Key& key) { remove(key.name); },
                       .keys = [] { return std::set<kube::Key>(); },
                       .synced = [] {},
                       .current = [](bool) {}};
  const auto spawn = [this](wire::asio::awaitable<void> work) {
    wire::asio::co_spawn(client_.io(), std::move(work), wire::asio::detached);
  };
  spawn(kube::follow(client_, "/api/v1/pods",
                     "labelSelector=app.kubernetes.io%2Fmanaged-by%3Dsluice,sluice.dev%2Finstance",
                     std::move(sink)));
  for (int i = 0; i < kWorkers; ++i) spawn(work());
}

void Kubelets::see(const json& object) {
  auto pod = control::PodObject::parse(object);
  if (!pod.ok()) return;
  const InstanceId id = pod->name;
  const std::string function = pod->labels["sluice.dev/function"];
  if (pod->deleting) {
    if (made_.erase(id) > 0) on_pod(function, false);
    running_.erase(id);
    if (ended_.insert(id).second) due_.push_back(std::move(*pod));
    return;
  }
  if (made_.try_emplace(id, function).second) on_pod(function, true);
  if (pod->phase == "Running") {
    running_.insert(id);
    agents_.pod_runs(id);
  } else if (begun_.insert(id).second) {
    due_.push_back(std::move(*pod));
  }
}

void Kubelets::remove(const InstanceId& id) {
  const auto made = made_.find(id);
  if (made != made_.end()) on_pod(made->second, false);
  made_.erase(id);
  running_.erase(id);
  begun_.erase(id);
  ended_.erase(id);
  agents_.pod_is_gone(id);
}

wire::asio::awaitable<void> Kubelets::work() {
  wire::asio::steady_timer pause(client_.io());
  for (;;) {
    if (due_.empty()) {
      pause.expires_after(Millis(5));
      (void)co_await pause.async_wait(wire::kAwait);
      continue;
    }
    control::PodObject pod = std::move(due_.front());
    due_.pop_front();
    co_await act(std::move(pod));
  }
}

wire::asio::awaitable<void> Kubelets::act(control::PodObject pod) {
  const std::string path = control::path_in("/api/v1/pods", pod.space, pod.name);
  if (!pod.deleting) {
    co_await begin(std::move(pod));
    co_return;
  }
  kube::Call call(verb::delete_, path, json{{"gracePeriodSeconds", 0}});
  const auto gone = co_await client_.call(std::move(call));
  if (!gone.ok() && gone.error().kind != ErrorKind::kNotFound)
    log::warn("{}: {}", pod.name, gone.error().message);
}

wire::asio::awaitable<void> Kubelets::begin(control::PodObject pod) {
  const std::string path = control::path_in("/api/v1/pods", pod.space, pod.name);
  const json target{
      {"apiVersion", "v1"}, {"kind", "Node"}, {"name", pod.annotations[control::kNodeAnnotation]}};
  kube::Call bind(verb::post, path + "/binding",
                  json{{"apiVersion", "v1"},
                       {"kind", "Binding"},
                       {"metadata", {{"name", pod.name}, {"namespace", pod.space}}},
                       {"target", target}});
  const auto bound = co_await client_.call(std::move(bind));
  if (!bound.ok()) log::warn("{}: {}", pod.name, bound.error().message);
  kube::Call run(verb::patch, path + "/status",
                 json{{"status",
                       {{"phase", "Running"},
                        {"podIP", "10.200.0.1"},
                        {"conditions", json::array({{{"type", "Ready"}, {"status", "True"}}})}}}},
                 kube::kMergePatch);
  const auto runs = co_await client_.call(std::move(run));
  if (!runs.ok() && runs.error().kind != ErrorKind::kNotFound)
    log::warn("{}: {}", pod.name, runs.error().message);
}

}  // namespace sluice::bench
