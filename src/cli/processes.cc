// `sluice control` and `sluice gateway`: mains of the platform's processes, started by `sluice up`.
#include <CLI/CLI.hpp>

#include "base/log.h"
#include "cli/session.h"
#include "control/run.h"
#include "gateway/gateway.h"

namespace sluice::cli {

void add_processes(CLI::App& app, Outcome& outcome) {
  auto c = std::make_shared<control::ControlOptions>();
  CLI::App* control_command =
      app.add_subcommand("control", "the control loop and its API (started by `sluice up`)");
  control_command->add_option("--data", c->data)->required();
  control_command->add_option("--policy", c->settings.bundle)->capture_default_str();
  control_command->add_option("--alpha", c->settings.scale.alpha)->capture_default_str();
  control_command->add_option("--slo-fraction", c->settings.scale.slo_fraction)
      ->capture_default_str();
  control_command->add_option("--listen-fd", c->listen_fd, "inherited unix socket for the API");
  control_command->add_option("--tcp-fd", c->tcp_fd, "inherited TCP socket for the API");
  control_command->add_option("--home", c->home);
  control_command->callback([c, &outcome] {
    log::start("control");
    outcome = control::run_control(*c);
  });

  auto g = std::make_shared<gateway::GatewayOptions>();
  auto data = std::make_shared<std::string>();
  CLI::App* gateway_command =
      app.add_subcommand("gateway", "the front door (started by `sluice up`)");
  gateway_command->add_option("--data", *data, "its admin socket and kept routes lie there");
  gateway_command->add_option("--listen", g->listen)->capture_default_str();
  gateway_command->add_option("--listen-fd", g->listen_fd);
  gateway_command->add_option("--admin", g->admin, "the admin API's socket, without --data");
  gateway_command->add_option("--threads", g->threads);
  gateway_command->add_option("--tls-cert", g->tls_cert);
  gateway_command->add_option("--tls-key", g->tls_key);
  gateway_command->callback([g, data, &outcome] {
    log::start("gateway");
    g->version = SLUICE_VERSION;
    if (!data->empty()) {
      g->admin = *data + "/run/gateway.sock";
      g->routes_file = *data + "/routes.json";
    }
    outcome = gateway::run_gateway(*g);
  });
}

}  // namespace sluice::cli
