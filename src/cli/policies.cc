// `sluice policies [NAME]`: the policies that this program has, and the settings of one.
#include <CLI/CLI.hpp>
#include <iostream>

#include "base/words.h"
#include "cli/session.h"
#include "cli/table.h"
#include "policy/bundle.h"

namespace sluice::cli {
namespace {

using nlohmann::json;

json settings_of(const policy::Bundle& bundle) {
  json all = json::array();
  for (const policy::SettingInfo& s : bundle.settings.list())
    all.push_back(
        {{"name", s.name}, {"value", s.value}, {"allowed", s.allowed}, {"meaning", s.meaning}});
  return all;
}

void list_policies(const Session& session) {
  json all = json::array();
  Table table({"POLICY", "REACHES-ZERO", "ARBITER", "SETTINGS", "SUMMARY"});
  for (const policy::Bundle& b : policy::bundles()) {
    const std::string name(b.name), arbiter(b.arbiter), summary(b.summary);
    all.push_back({{"name", name},
                   {"summary", summary},
                   {"arbiter", arbiter},
                   {"reaches_zero", b.reaches_zero},
                   {"settings", settings_of(b)}});
    table.add({name, b.reaches_zero ? "yes" : "no", arbiter,
               std::to_string(b.settings.list().size()), summary});
  }
  session.json() ? print(all) : void(std::cout << table.text());
}

Result<void> show_policy(const Session& session, const std::string& name) {
  const policy::Bundle* bundle = policy::find_bundle(name);
  if (bundle == nullptr) {
    std::vector<std::string> names;
    for (const policy::Bundle& b : policy::bundles()) names.emplace_back(b.name);
    return Error{ErrorKind::kNotFound, not_found("policy", name, names)};
  }
  const json settings = settings_of(*bundle);
  if (session.json()) return print(settings), Result<void>();
  std::cout << bundle->name << ": " << bundle->summary << "\n";
  if (settings.empty()) return std::cout << "It has no settings.\n", Result<void>();
  Table table({"SETTING", "VALUE", "ALLOWED", "MEANING"});
  for (const json& s : settings) table.add({s["name"], s["value"], s["allowed"], s["meaning"]});
  std::cout << "\n" << table.text();
  return {};
}

}  // namespace

void add_policies(CLI::App& app, Session& session, Outcome& outcome) {
  auto name = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("policies", "the policies, or with a NAME the settings of one");
  command->add_option("name", *name, "such as has-gpu");
  command->callback([name, &session, &outcome] {
    if (name->empty())
      list_policies(session), outcome = Result<void>();
    else
      outcome = show_policy(session, *name);
  });
}

}  // namespace sluice::cli
