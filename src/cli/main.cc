// sluice: one binary for users and for the platform's own processes.
#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/words.h"
#include "cli/gateway.h"
#include "cli/node.h"
#include "cli/session.h"

namespace sluice::cli {
namespace {

// Returns the first word that is neither an option nor an option's value, if no command has that
// name.
std::optional<std::string> unknown_command(const CLI::App& app, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--data" || word == "-o" || word == "--output" || word == "--kubeconfig" ||
        word == "--system-namespace") {
      ++i;
    } else if (!word.starts_with("-")) {
      for (const CLI::App* command : app.get_subcommands(nullptr))
        if (command->get_name() == word) return std::nullopt;
      return word;
    }
  }
  return std::nullopt;
}

// What stands on a cluster in place of commands that are one machine's.
void refuse_on_cluster(const CLI::App& app) {
  constexpr std::pair<std::string_view, const char*> kInPlace[] = {
      {"apply", "kubectl apply -f FILE"},
      {"delete", "kubectl delete ifn NAME"},
      {"logs", "kubectl logs -l sluice.dev/function=NAME"},
      {"invoke", "a request to the Service sluice-gateway"},
      {"run", "a Pod with the annotation sluice.dev/quota"},
      {"resize", "another value of the Pod's annotation sluice.dev/quota"},
      {"up", "kubectl apply -k deploy"}};
  for (const CLI::App* command : app.get_subcommands())
    for (const auto& [name, instead] : kInPlace)
      if (command->get_name() == name)
        throw CLI::ValidationError(
            std::string(name),
            std::string("is a command of one machine; on a cluster, ") + instead + " does it");
}

std::string about_unknown_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return "'" + word + "' is no command" + did_you_mean(word, names) + " (sluice --help lists them)";
}

}  // namespace
}  // namespace sluice::cli

int main(int argc, char** argv) {
  using namespace sluice;
  log::start("sluice");
  CLI::App app{
      "Sluice serves deep-learning models in enforced slices of shared devices.\n"
      "Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 not found, 4 no platform runs,\n"
      "            5 refused for now, 6 not allowed, 7 timed out, 75 run: the program's GPU "
      "failed"};
  app.name("sluice");
  app.require_subcommand(0, 1);  // both errors are reported below
  app.fallthrough();             // --data and -o also after the command
  app.set_version_flag("--version", SLUICE_VERSION);
  cli::Session session{.data = cli::default_data()};
  app.add_option("--data", session.data, "data directory (or SLUICE_DATA)")->capture_default_str();
  app.add_option("-o,--output", session.output, "table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  session.on_cluster = std::string_view(argv[0]).ends_with("kubectl-sluice");
  app.add_flag("--cluster", session.on_cluster,
               "the platform of a Kubernetes cluster, as `kubectl sluice`");
  app.add_option("--kubeconfig", session.kubeconfig, "of that cluster; without, as kubectl does");
  app.add_option("--system-namespace", session.system, "of the platform there")
      ->capture_default_str();

  app.parse_complete_callback([&] {
    if (session.on_cluster) cli::refuse_on_cluster(app);
  });

  cli::Outcome outcome;
  cli::add_up(app, session, outcome);
  cli::add_apply(app, session, outcome);
  cli::add_init(app, session, outcome);
  cli::add_inspect(app, session, outcome);
  cli::add_get(app, session, outcome);
  cli::add_describe(app, session, outcome);
  cli::add_events(app, session, outcome);
  cli::add_change(app, session, outcome);
  cli::add_policies(app, session, outcome);
  cli::add_status(app, session, outcome);
  cli::add_invoke(app, session, outcome);
  cli::add_logs(app, session, outcome);
  cli::add_predict(app, session, outcome);
  cli::add_profile(app, session, outcome);
  cli::add_load(app, session, outcome);
  cli::add_top(app, session, outcome);
  cli::add_run(app, session, outcome);
  cli::add_simulate(app, session, outcome);
  cli::add_explain(app, session, outcome);
  cli::add_quickstart(app, session, outcome);
  cli::add_kube(app, outcome);
  cli::add_completion(app, outcome);
  cli::add_control(app, outcome);
  cli::add_gateway_command(app, outcome);
  cli::add_node_command(app, outcome);
  app.add_subcommand("version", "print the version")->callback([&] {
    if (session.json())
      cli::print({{"version", SLUICE_VERSION}});
    else
      std::cout << "sluice " << SLUICE_VERSION << "\n";
  });
  if (argc > 1 && std::string_view(argv[1]) == "__complete") {
    cli::print_candidates(app, session, {argv + 2, argv + argc});
    return 0;
  }
  if (const auto word = cli::unknown_command(app, argc, argv)) {
    std::cerr << "sluice: " << cli::about_unknown_command(app, *word) << "\n";
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 2;
  } catch (const std::exception& e) {
    outcome = Error{ErrorKind::kInternal, e.what()};
  }
  if (app.get_subcommands().empty()) {
    std::cerr << "sluice: a command is wanted; sluice --help lists them\n";
    return 2;
  }
  if (outcome.ok()) return 0;
  std::cerr << "sluice: " << outcome.error().message << "\n";
  return cli::exit_code(outcome.error());
}
