// `sluice control`: the control loop's main, started by `sluice up`. It joins the loop and the API
// with this machine's adapters.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/log.h"
#include "cli/inherited.h"
#include "cli/limits.h"
#include "cli/programs.h"
#include "cli/session.h"
#include "control/api/run.h"
#include "control/local/local_ports.h"
#include "process/process_identity.h"
#include "wire/http/http.h"

namespace sluice::cli {
namespace {

struct ControlFlags {
  std::string data;
  int listen_fd = -1;  // −1: the socket is made here, DATA/run/api.sock
  int tcp_fd = -1;     // −1: none
  std::string home;
  std::vector<std::string> settings;
  std::string servers, loans, checkpoints;
  double lend_after = 30;  // seconds
};

Result<control::ApiSockets> sockets_of(const ControlFlags& flags) {
  control::ApiSockets sockets{
      .local = Fd(flags.listen_fd), .tcp = Fd(flags.tcp_fd), .token = "", .home = flags.home};
  const std::string token = flags.data + "/token";
  std::ifstream(token) >> sockets.token;
  if (sockets.tcp.valid() && sockets.token.empty())
    return Error{ErrorKind::kInternal,
                 token + ": missing: the API is not served over TCP without one"};
  if (sockets.local.valid()) return sockets;
  SLUICE_ASSIGN(made, wire::listen_on({.path = flags.data + "/run/api.sock"}));
  sockets.local = std::move(made);
  return sockets;
}

Result<void> run(const ControlFlags& flags, control::ControlSettings settings) {
  for (const std::string& s : flags.settings)
    settings.bundle_settings[s.substr(0, s.find('='))] =
        s.substr(std::min(s.find('='), s.size() - 1) + 1);
  if (auto boot = node::boot_id(); boot.ok()) settings.boot_id = std::move(*boot);
  const std::string trainer = folder_of_programs(flags.data) / "sluice-trainer";
  const auto rules = policy::reclaim_rules();
  if (const auto rule = std::ranges::find(rules, flags.loans); rule != rules.end())
    settings.loans.reclaim = static_cast<policy::ReclaimRule>(rule - rules.begin());
  settings.loans.idle = from_seconds(flags.lend_after);
  const SteadyClock clock;
  SLUICE_ASSIGN(servers, control::servers_from(flags.servers));
  control::CheckpointCopies copies;
  if (!flags.checkpoints.empty()) {
    auto opened = control::CheckpointCopies::in(flags.checkpoints, flags.data);
    if (opened.ok())
      copies = std::move(*opened);
    else  // what is served goes on
      log::error("{}. Checkpoints are not copied until the next start.", opened.error().message);
  }
  SLUICE_ASSIGN(local,
                control::LocalPorts::open(flags.data, trainer, clock, servers, std::move(copies)));
  SLUICE_ASSIGN(sockets, sockets_of(flags));
  return control::run_control(local->ports(), settings, std::move(sockets));
}

}  // namespace

void add_control(CLI::App& app, Outcome& outcome) {
  auto flags = std::make_shared<ControlFlags>();
  auto settings = std::make_shared<control::ControlSettings>();
  CLI::App* control_command =
      app.add_subcommand("control", "the control loop and its API (started by `sluice up`)");
  control_command->add_option("--data", flags->data)->required();
  control_command->add_option("--policy", settings->bundle)->capture_default_str();
  control_command->add_option("--plan", settings->plan);
  control_command->add_option("--setting", flags->settings,
                              "NAME=VALUE of the policy; may be repeated");
  control_command->add_option("--servers", flags->servers);
  control_command->add_option("--checkpoints", flags->checkpoints);
  control_command->add_option("--loans", flags->loans);
  control_command->add_option("--lend-after", flags->lend_after);
  control_command->add_option("--spare-servers", settings->loans.spare);
  control_command->add_option("--refine", settings->refine);
  control_command->add_option("--listen-fd", flags->listen_fd, "inherited unix socket for the API")
      ->check(CLI::Range(0, kHighestDescriptor));
  control_command->add_option("--tcp-fd", flags->tcp_fd, "inherited TCP socket for the API")
      ->check(CLI::Range(0, kHighestDescriptor));
  control_command->add_option("--home", flags->home);
  control_command->callback([flags, settings, &outcome] {
    log::start("control");
    keep_inherited();
    outcome = run(*flags, *settings);
  });
}

}  // namespace sluice::cli
