// `sluice kube agent`: the node daemon of a cluster's node. Its instances are Pods, which it finds
// by a watch; its API is behind a TLS front.
#include <CLI/CLI.hpp>
#include <map>
#include <semaphore>
#include <stop_token>
#include <thread>

#include "base/log.h"
#include "cli/kube.h"
#include "cli/kube_client.h"
#include "cli/node.h"
#include "control/kube/model_cache.h"
#include "control/kube/node_devices.h"
#include "control/kube/objects.h"
#include "control/kube/peer_secrets.h"
#include "control/kube/pod_slices.h"
#include "control/kube/pod_spec.h"
#include "control/kube/slice_notes.h"
#include "kube/informer.h"
#include "kube/time_text.h"
#include "kube/wait.h"
#include "node/pods.h"
#include "wire/http/endpoint.h"
#include "wire/http/tls_front.h"

namespace sluice::cli {
namespace {

using control::PodObject;

constexpr const char* kSlicesEnabled = "labelSelector=sluice.dev%2Fslices%3Denabled";
constexpr UnixMillis kShowEvery = 1000;  // devices and slices, in objects

struct AgentFlags {
  NodeFlags node;
  std::string name, kubeconfig, tls;
  std::string listen = "0.0.0.0:7443";
};

node::PodStatus status_of(const PodObject& pod) {
  return {.uid = pod.uid,
          .name = pod.space + "/" + pod.name,
          .phase = pod.phase,
          .why = pod.why(),
          .ip = pod.ip,
          .containers = pod.containers,
          .prepares = pod.prepares,
          .leaves = pod.deleting,
          .ended = pod.phase == "Succeeded" || pod.phase == "Failed"};
}

// Our instances' Pods on this node. Belongs to the daemon's loop, as its client does.
class WatchedPods : public node::Pods {
 public:
  WatchedPods(kube::Client& client, const std::string& node)
      : informer_(client, "/api/v1/pods", "fieldSelector=spec.nodeName%3D" + node, [this] {
          compare();
          news_.release();
        }) {}

  const kube::Informer<PodObject>& informer() const { return informer_; }
  // Waits on another thread for a change, or a while.
  void wait_for_news() { (void)news_.try_acquire_for(std::chrono::seconds(1)); }

  boost::asio::awaitable<void> run() { return informer_.run(); }

  std::optional<node::PodStatus> find(const std::string& space,
                                      const InstanceId& id) const override {
    const auto found = seen_.find({space, id});
    return found != seen_.end() ? std::optional(found->second) : std::nullopt;
  }
  bool current() const override { return informer_.synced() && informer_.current(); }
  void listen(Listener listener) override { listener_ = std::move(listener); }

 private:
  // Tells what has changed since the last time. A Pod that is gone has ended.
  void compare() {
    std::map<kube::Key, node::PodStatus> now;
    for (const auto& [key, pod] : informer_.all())
      if (pod->labels.contains(control::kInstanceLabel)) now.emplace(key, status_of(*pod));
    std::vector<InstanceId> changed;
    for (auto& [key, before] : seen_) {
      if (now.contains(key)) continue;
      if (!before.ended) changed.push_back(key.name);
      before.ended = true;
      before.phase = "Deleted";
    }
    for (auto& [key, pod] : now) {
      const auto known = seen_.find(key);
      if (known != seen_.end() && known->second == pod) continue;
      changed.push_back(key.name);
      seen_.insert_or_assign(key, std::move(pod));
    }
    if (listener_)
      for (const InstanceId& id : changed) listener_(id);
    std::erase_if(seen_, [&](const auto& s) { return s.second.ended && !now.contains(s.first); });
  }

  std::counting_semaphore<> news_{0};
  kube::Informer<PodObject> informer_;
  std::map<kube::Key, node::PodStatus> seen_;  // an instance's Pod has its id as its name
  Listener listener_;
};

Result<void> run(AgentFlags flags) {
  boost::asio::io_context io{1};
  SLUICE_ASSIGN(config, kube_config(flags.kubeconfig));
  SLUICE_ASSIGN(client, kube::Client::make(io, std::move(config)));
  WatchedPods pods(*client, flags.name);
  kube::spawn(io, pods.run());
  SLUICE_ASSIGN(at, wire::parse_endpoint(flags.listen));
  SLUICE_ASSIGN(listening, wire::listen_on(at));
  const wire::TlsFront front(std::move(listening), {.tls = flags.tls,
                                                    .client = control::kControllerName,
                                                    .to = flags.node.settings.paths.node_socket()});
  control::ObjectWriter events(*client, [] { return true; });
  kube::spawn(io, events.run());
  const wire::Endpoint api{.path = flags.node.settings.paths.node_socket()};
  control::PodSlices::Spaces spaces(*client, "/api/v1/namespaces", kSlicesEnabled);
  kube::spawn(io, spaces.run());
  control::PodSlices slices(api, pods.informer(), spaces, events);
  control::NodeDevices devices(flags.name, flags.node.settings.paths.data + "/devices.txt", events);
  control::SliceNotes notes(flags.name, pods.informer(), events);
  const std::jthread slicing([&](std::stop_token stop) {
    wire::HttpClient own(api, Seconds(5));
    for (UnixMillis asked = 0; !stop.stop_requested();) {
      pods.wait_for_news();
      if (const UnixMillis wall = unix_now(); kube::has_passed(asked, wall, kShowEvery)) {
        asked = wall;
        if (const auto state = own.json(wire::http::verb::get, "/v1/state"); state.ok()) {
          devices.turn(*state, wall);
          notes.turn(*state);
        }
      }
      if (pods.informer().synced() && spaces.synced()) slices.turn(unix_now());
    }
  });
  if (const auto made = control::make_model_cache(flags.node.settings.paths.data); !made.ok())
    log::warn("no cache of models: {}", made.error().message);
  return run_node(io, std::move(flags.node), &pods);
}

}  // namespace

void add_kube_agent(CLI::App& kube, Outcome& outcome) {
  auto flags = std::make_shared<AgentFlags>();
  CLI::App* command = kube.add_subcommand("agent", "the node daemon of a node, for its Pods");
  add_node_options(*command, flags->node);
  add_pod_options(*command, flags->node);
  command->add_option("--node", flags->name, "the Node's name")->required();
  command->add_option("--listen", flags->listen, "of its API, with TLS")->capture_default_str();
  command->add_option("--tls", flags->tls, "a folder with tls.crt, tls.key and ca.crt")->required();
  command->add_option("--kubeconfig", flags->kubeconfig, "without, this Pod's ServiceAccount");
  command->callback([flags, &outcome] { outcome = run(std::move(*flags)); });
}

}  // namespace sluice::cli
