// `sluice policies [NAME]`: lists the policies of this program, and the settings of one, with those
// that the running platform has changed.
#include <CLI/CLI.hpp>
#include <iostream>

#include "arbiters/arbiter.h"
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

// Returns the running platform's overrides of the bundle's values, by the setting's name. Empty:
// none, or no platform runs.
json changed_by_platform(const Session& session, const std::string& bundle) {
  const auto now = session.api(wire::http::verb::get, "/v1/status");
  if (!now.ok() || now->value("policy", "") != bundle) return json::object();
  return now->value("policy_settings", json::object());
}

void list_policies(const Session& session) {
  json all = json::array();
  Table table({"POLICY", "REACHES-ZERO", "ARBITER", "SETTINGS", "SUMMARY"});
  for (const policy::Bundle& b : policy::bundles()) {
    const std::string name(b.name), arbiter(b.arbiter), summary(b.summary);
    const std::string on_gpus(policy::arbiter_on(DeviceKind::kCuda, b.arbiter));
    all.push_back({{"name", name},
                   {"summary", summary},
                   {"arbiter", arbiter},
                   {"gpu_arbiter", on_gpus},
                   {"reaches_zero", b.reaches_zero},
                   {"settings", settings_of(b)}});
    table.add({name, b.reaches_zero ? "yes" : "no",
               arbiter == on_gpus ? arbiter : arbiter + " (GPUs: " + on_gpus + ")",
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
  json settings = settings_of(*bundle);
  const json changed = changed_by_platform(session, name);
  for (json& s : settings)
    if (changed.contains(s["name"])) s["in_force"] = changed[s["name"].get<std::string>()];
  if (session.json()) return print(settings), Result<void>();
  std::cout << bundle->name << ": " << bundle->summary << "\n";
  if (settings.empty()) return std::cout << "It has no settings.\n", Result<void>();
  std::vector<std::string> head{"SETTING", "VALUE", "ALLOWED", "MEANING"};
  if (!changed.empty()) head.insert(head.begin() + 2, "IN-FORCE");
  Table table(head);
  for (const json& s : settings) {
    std::vector<std::string> row{s["name"], s["value"], s["allowed"], s["meaning"]};
    if (!changed.empty()) row.insert(row.begin() + 2, s.value("in_force", row[1]));
    table.add(row);
  }
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
