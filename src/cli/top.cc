// `sluice top`: the live view.
#include <CLI/CLI.hpp>
#include <iostream>
#include <thread>

#include "base/clock.h"
#include "cli/functions_table.h"
#include "cli/session.h"

namespace sluice::cli {
namespace {

using wire::http::verb;

Result<std::string> screen(const Session& session) {
  SLUICE_ASSIGN(functions, session.api(verb::get, "/v1/functions"));
  SLUICE_ASSIGN(devices, session.api(verb::get, "/v1/devices"));
  SLUICE_ASSIGN(decisions, session.api(verb::get, "/v1/decisions?limit=8"));
  std::string out = functions_table(functions) + "\n";
  for (const auto& d : devices) {
    const int reserved = d["reserved"].get<int>();
    const int filled = std::min(30, reserved * 30 / 1000);
    out += d["id"].get<std::string>() + "  [" + std::string(static_cast<size_t>(filled), '#') +
           std::string(static_cast<size_t>(30 - filled), '.') + "] " + percent(reserved) +
           " reserved, " + std::to_string(d["instances"].get<int>()) + " instances\n";
  }
  out += "\n";
  for (const auto& d : decisions)
    out += age(unix_now() - d["at"].get<int64_t>()) + " ago  " + d["action"].get<std::string>() +
           " " + d["subject"].get<std::string>() + ": " + d["reason"]["text"].get<std::string>() +
           "\n";
  return out;
}

}  // namespace

void add_top(CLI::App& app, Session& session, Outcome& outcome) {
  auto once = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("top", "live view of functions, devices and decisions");
  command->add_flag("--once", *once, "print it once");
  command->callback([=, &session, &outcome] {
    for (;;) {
      const auto text = screen(session);
      if (!text.ok()) {
        outcome = text.error();
        return;
      }
      std::cout << (*once ? "" : "\033[H\033[J") << *text << std::flush;
      if (*once) return;
      std::this_thread::sleep_for(Seconds(1));
    }
  });
}

}  // namespace sluice::cli
