// `sluice gateway`: the gateway's main, from flags to its options. Started by `sluice up`.
#include "cli/gateway.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "base/log.h"
#include "cli/inherited.h"
#include "cli/limits.h"
#include "gateway/gateway.h"

namespace sluice::cli {

void add_gateway_command(CLI::App& app, Result<void>& outcome) {
  auto g = std::make_shared<gateway::GatewayOptions>();
  auto data = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("gateway", "the front door (started by `sluice up`)");
  command->add_option("--data", *data, "its admin socket and kept routes lie there");
  command->add_option("--listen", g->listen)->capture_default_str();
  command->add_option("--listen-fd", g->listen_fd)->check(CLI::Range(0, kHighestDescriptor));
  command->add_option("--admin", g->admin, "the admin API's socket, without --data");
  command->add_option("--threads", g->threads)->check(CLI::Range(0, kMostThreads));
  command->add_option("--tls-cert", g->tls_cert);
  command->add_option("--tls-key", g->tls_key);
  command->add_option("--token-file", g->token_file,
                      "what callers of functions without a token of their own must bear");
  command->add_option("--max-body", g->limits.body_bytes)
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(size_t{1}, kLargestBody));
  command->add_flag("--strict-readiness", g->strict_readiness);
  command->callback([g, data, &outcome] {
    log::start("gateway");
    keep_inherited();
    g->version = SLUICE_VERSION;
    if (!data->empty()) {
      g->admin = *data + "/run/gateway.sock";
      g->routes_file = *data + "/run/routes.json";
    }
    outcome = gateway::run_gateway(*g);
  });
}

}  // namespace sluice::cli
