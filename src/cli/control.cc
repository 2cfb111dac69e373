// `sluice control`: the control loop's main, started by `sluice up`.
#include <CLI/CLI.hpp>
#include <filesystem>

#include "base/log.h"
#include "cli/inherited.h"
#include "cli/limits.h"
#include "cli/programs.h"
#include "cli/session.h"
#include "control/run.h"

namespace sluice::cli {

void add_control(CLI::App& app, Outcome& outcome) {
  auto c = std::make_shared<control::ControlOptions>();
  CLI::App* control_command =
      app.add_subcommand("control", "the control loop and its API (started by `sluice up`)");
  control_command->add_option("--data", c->data)->required();
  control_command->add_option("--policy", c->settings.bundle)->capture_default_str();
  auto settings = std::make_shared<std::vector<std::string>>();
  control_command->add_option("--setting", *settings, "NAME=VALUE of the policy; may be repeated");
  control_command->add_option("--refine", c->settings.refine);
  control_command->add_option("--listen-fd", c->listen_fd, "inherited unix socket for the API")
      ->check(CLI::Range(0, kHighestDescriptor));
  control_command->add_option("--tcp-fd", c->tcp_fd, "inherited TCP socket for the API")
      ->check(CLI::Range(0, kHighestDescriptor));
  control_command->add_option("--home", c->home);
  control_command->callback([c, settings, &outcome] {
    log::start("control");
    keep_inherited();
    for (const std::string& s : *settings)
      c->settings.bundle_settings[s.substr(0, s.find('='))] =
          s.substr(std::min(s.find('='), s.size() - 1) + 1);
    c->trainer = folder_of_programs(c->data) / "sluice-trainer";
    outcome = control::run_control(*c);
  });
}

}  // namespace sluice::cli
