// `sluice rollback`, `delete`, `drain`, `undrain`.
#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/session.h"

namespace sluice::cli {
namespace {

using wire::http::verb;

constexpr int kHighestRevision = 1'000'000'000;

Result<void> call(const Session& session, verb method, const std::string& target,
                  const nlohmann::json& body, const std::string& said) {
  SLUICE_ASSIGN(answer, session.api(method, target, body));
  if (session.json())
    print(answer);
  else
    std::cout << said << "\n";
  return {};
}

}  // namespace

void add_change(CLI::App& app, Session& session, Outcome& outcome) {
  auto name = std::make_shared<std::string>();
  auto to = std::make_shared<int>(0);
  CLI::App* rollback = app.add_subcommand("rollback", "serve an earlier revision again");
  rollback->add_option("function", *name)->required();
  rollback->add_option("--to", *to, "the revision; without: the one before")
      ->check(CLI::Range(1, kHighestRevision));
  rollback->callback([=, &session, &outcome] {
    outcome = call(session, verb::post, function_path(*name) + "/rollback", {{"to", *to}},
                   *name + " rolls back");
  });
  CLI::App* remove =
      app.add_subcommand("delete", "delete a function; what it has accepted is answered");
  remove->add_option("function", *name)->required();
  remove->callback([=, &session, &outcome] {
    outcome = call(session, verb::delete_, function_path(*name), nullptr, *name + " deleted");
  });
  auto device = std::make_shared<std::string>();
  for (const std::string word : {"drain", "undrain"}) {
    CLI::App* command =
        app.add_subcommand(word, word == "drain" ? "a device takes no more instances"
                                                 : "a device takes instances again");
    command->add_option("device", *device)->required();
    command->callback([=, &session, &outcome] {
      outcome = call(session, verb::post, "/v1/devices/" + escaped(*device) + "/" + word, nullptr,
                     *device + " " + word + "ed");
    });
  }
}

}  // namespace sluice::cli
