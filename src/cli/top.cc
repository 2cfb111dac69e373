// `sluice top`: the live view.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <thread>

#include "base/clock.h"
#include "cli/functions_table.h"
#include "cli/session.h"
#include "cli/slices_view.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

Result<json> view(const Session& session) {
  SLUICE_ASSIGN(functions, session.api(verb::get, "/v1/functions"));
  SLUICE_ASSIGN(devices, session.api(verb::get, "/v1/devices"));
  SLUICE_ASSIGN(instances, session.api(verb::get, "/v1/instances"));
  SLUICE_ASSIGN(decisions, session.api(verb::get, "/v1/decisions?limit=8"));
  return json{{"functions", functions},
              {"devices", devices},
              {"instances", instances},
              {"decisions", decisions}};
}

std::string screen(const json& view) {
  std::string out = functions_table(view["functions"]) + "\n" +
                    slices_view(view["devices"], view["instances"]) + "\n";
  for (const json& d : view["decisions"])
    out += age(unix_now() - d["at"].get<int64_t>()) + " ago  " + d["action"].get<std::string>() +
           " " + d["subject"].get<std::string>() + ": " + d["reason"]["text"].get<std::string>() +
           "\n";
  return out;
}

// Every second until it is interrupted; once where nobody watches.
Result<void> top(const Session& session, bool once) {
  for (;;) {
    SLUICE_ASSIGN(now, view(session));
    if (session.json())
      print(now);
    else
      std::cout << (once ? "" : "\033[H\033[J") << screen(now) << std::flush;
    if (once) return {};
    std::this_thread::sleep_for(Seconds(1));
  }
}

}  // namespace

void add_top(CLI::App& app, Session& session, Outcome& outcome) {
  auto once = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "top", "live view of functions, devices and decisions; one frame where no terminal is");
  command->add_flag("--once", *once, "one frame");
  command->callback([=, &session, &outcome] {
    outcome = top(session, *once || session.json() || ::isatty(STDOUT_FILENO) == 0);
  });
}

}  // namespace sluice::cli
