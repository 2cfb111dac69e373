// `sluice status`: whether a platform runs here, its addresses, and how slices are held.
#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/session.h"

namespace sluice::cli {
namespace {

using nlohmann::json;

// Returns the address of a process of the platform, as `sluice up` published it.
std::string address(const Session& session, const std::string& file) {
  const auto text = read_file(session.run(file));
  return text.ok() ? text->substr(0, text->find('\n')) : "";
}

// "has-gpu (alpha: 0.8), plan fifo"
std::string policy(const json& now) {
  std::string settings;
  const json own = now.value("policy_settings", json::object());  // an older platform sends none
  for (const auto& [name, text] : own.items())
    settings += (settings.empty() ? " (" : ", ") + name + ": " + text.get<std::string>();
  const std::string plan = now.value("plan", "");
  return now["policy"].get<std::string>() + settings + (settings.empty() ? "" : ")") +
         (plan.empty() ? "" : ", plan " + plan);
}

std::string word(const json& now, const char* part) {
  return now[part].get<bool>() ? "answers" : "does not answer";
}

// Where it is, and where its functions answer, is Kubernetes' to say.
Result<void> status_of_cluster(const Session& session, const json& now) {
  if (session.json())
    print(now);
  else
    std::cout << "functions    http://sluice-gateway." << session.system << ", in the cluster\n"
              << "gateways     " << word(now, "gateway") << "\n"
              << "agents       " << word(now, "node") << "\n"
              << "policy       " << policy(now) << "\n"
              << "enforcement  " << now["enforcement"].get<std::string>() << "\n";
  if (now["node"].get<bool>() && now["gateway"].get<bool>()) return {};
  return Error{ErrorKind::kInternal, "an agent or a gateway does not answer; `kubectl -n " +
                                         session.system + " get pods` shows them"};
}

Result<void> status(const Session& session) {
  SLUICE_ASSIGN(now, session.api(wire::http::verb::get, "/v1/status"));
  if (session.on_cluster) return status_of_cluster(session, now);
  now["data"] = session.data;
  now["functions_at"] = address(session, "gateway.address");
  now["api_at"] = address(session, "api.address");
  const bool whole = now["node"].get<bool>() && now["gateway"].get<bool>();
  if (session.json()) {
    print(now);
  } else {
    std::cout << "data         " << session.data << "\n"
              << "functions    http://" << now["functions_at"].get<std::string>() << "\n"
              << "API          http://" << now["api_at"].get<std::string>() << "\n"
              << "gateway      " << word(now, "gateway") << "\n"
              << "node daemon  " << word(now, "node") << "\n"
              << "policy       " << policy(now) << "\n"
              << "enforcement  " << now["enforcement"].get<std::string>() << "\n";
  }
  if (whole) return {};
  return Error{ErrorKind::kInternal, "a process of the platform does not answer; `" +
                                         session.hint("logs NAME") + "` shows what it printed"};
}

}  // namespace

void add_status(CLI::App& app, Session& session, Outcome& outcome) {
  CLI::App* command = app.add_subcommand(
      "status", "whether the platform runs and where; exit code 4 where none runs");
  command->callback([&] { outcome = status(session); });
}

}  // namespace sluice::cli
