// `sluice kube gateway`: the gateway of a cluster. It fetches its routes from the API server by a
// watch, which keeps them while that is away; its admin API is behind a TLS front.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <semaphore>
#include <stop_token>
#include <thread>

#include "base/log.h"
#include "base/replace_file.h"
#include "cli/kube.h"
#include "cli/kube_client.h"
#include "control/kube/objects.h"
#include "control/kube/peer_secrets.h"
#include "control/kube/route_objects.h"
#include "gateway/gateway.h"
#include "kube/informer.h"
#include "wire/http/endpoint.h"
#include "wire/http/tls_front.h"
#include "wire/json/routing_json.h"

namespace sluice::cli {
namespace {

using control::RouteObject;

struct GatewayFlags {
  gateway::GatewayOptions options;
  std::string data = "/tmp", kubeconfig, tls;
  std::string admin_listen = "0.0.0.0:7444";
};

// Carries the routes to the gateway's admin API whenever their version has changed. A turn is on a
// thread of its own.
class RouteWatcher {
 public:
  RouteWatcher(kube::Client& client, const std::string& space, const std::string& admin)
      : routes_(client, control::path_in(control::kRoutesPath, space), "",
                [this] { news_.release(); }),
        admin_({.path = admin}, Seconds(5)) {}

  boost::asio::awaitable<void> follow() { return routes_.run(); }

  // Returns once the file has the routes, from which a gateway begins: those of its former life, or
  // what the API server has. Without them it would say that a function is not there. Where no
  // controller has written any, there are none to wait for.
  void wait_for_routes(const std::string& file) {
    while (access(file.c_str(), R_OK) != 0) {
      news_.acquire();
      if (!routes_.synced()) continue;
      const Result<RoutingTable> table = control::table_of(routes_.all());
      if (!table.ok()) return;
      const auto kept = replace_file(file, wire::to_json(*table).dump());
      if (!kept.ok()) log::warn("routes: {}", kept.error().message);
    }
  }

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (!news_.try_acquire_for(std::chrono::milliseconds(200)) && told_ == 0) continue;
      if (routes_.synced()) tell();
    }
  }

 private:
  void tell() {
    const Result<RoutingTable> table = control::table_of(routes_.all());
    if (!table.ok()) return;  // its version object is still to come
    if (table->version == told_) return;
    const auto answer = admin_.json(wire::http::verb::put, "/v1/routes", wire::to_json(*table));
    if (answer.ok())
      told_ = table->version;
    else
      log::warn("routes: {}", answer.error().message);
  }

  std::counting_semaphore<> news_{0};
  kube::Informer<RouteObject> routes_;
  wire::HttpClient admin_;
  int64_t told_ = -1;
};

Result<void> run(GatewayFlags flags) {
  end_when_asked();
  flags.options.version = SLUICE_VERSION;
  flags.options.admin = flags.data + "/gateway.sock";
  flags.options.routes_file = flags.data + "/routes.json";
  SLUICE_ASSIGN(kube, KubeThread::make(flags.kubeconfig));
  RouteWatcher routes(kube->client(), kube->client().config().space, flags.options.admin);
  kube->spawn(routes.follow());
  kube->start();
  SLUICE_ASSIGN(at, wire::parse_endpoint(flags.admin_listen));
  SLUICE_ASSIGN(listening, wire::listen_on(at));
  const wire::TlsFront front(
      std::move(listening),
      {.tls = flags.tls, .client = control::kControllerName, .to = flags.options.admin});
  routes.wait_for_routes(flags.options.routes_file);
  const std::jthread watcher([&](std::stop_token stop) { routes.run(stop); });
  Result<void> outcome = gateway::run_gateway(flags.options);
  kube->stop();
  return outcome;
}

}  // namespace

void add_kube_gateway(CLI::App& kube, Outcome& outcome) {
  auto flags = std::make_shared<GatewayFlags>();
  gateway::GatewayOptions& o = flags->options;
  o.listen = "0.0.0.0:8000";
  CLI::App* command = kube.add_subcommand("gateway", "the front door; several may run");
  command->add_option("--listen", o.listen)->capture_default_str();
  command->add_option("--admin-listen", flags->admin_listen, "of its admin API, with TLS")
      ->capture_default_str();
  command->add_option("--tls", flags->tls, "a folder with tls.crt, tls.key and ca.crt")->required();
  command->add_option("--data", flags->data, "a folder for its socket and its last routes")
      ->capture_default_str();
  command->add_option("--threads", o.threads)->check(CLI::Range(0, 64));
  command->add_option("--tls-cert", o.tls_cert, "of its own front door");
  command->add_option("--tls-key", o.tls_key);
  command->add_option("--token-file", o.token_file);
  command->add_option("--kubeconfig", flags->kubeconfig, "without, this Pod's ServiceAccount");
  command->callback([flags, &outcome] {
    log::start("gateway");
    outcome = run(std::move(*flags));
  });
}

}  // namespace sluice::cli
