// `sluice policies [NAME]`: lists the policies of this program, and the settings of one, with those
// that the running platform has changed. `--plans`: the same of the plans of training jobs.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "arbiters/arbiter.h"
#include "base/words.h"
#include "cli/session.h"
#include "cli/table.h"
#include "policy/bundle.h"

namespace sluice::cli {
namespace {

using nlohmann::json;

json settings_json(const policy::Settings& settings) {
  json all = json::array();
  for (const policy::SettingInfo& s : settings.list())
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
                   {"settings", settings_json(b.settings)}});
    table.add({name, b.reaches_zero ? "yes" : "no",
               arbiter == on_gpus ? arbiter : arbiter + " (GPUs: " + on_gpus + ")",
               std::to_string(b.settings.list().size()), summary});
  }
  session.json() ? print(all) : void(std::cout << table.text());
}

void list_plans(const Session& session) {
  json all = json::array();
  Table table({"PLAN", "SETTINGS", "SUMMARY"});
  for (const policy::Plan& p : policy::plans()) {
    const std::string name(p.name), summary(p.summary);
    const json settings = settings_json(p.settings);
    all.push_back({{"name", name}, {"summary", summary}, {"settings", settings}});
    table.add({name, std::to_string(settings.size()), summary});
  }
  session.json() ? print(all) : void(std::cout << table.text());
}

// Shows the settings of the bundle or plan of that name, with what the platform has `changed`.
Result<void> show_settings(const Session& session, const std::string& noun, const auto& table_of,
                           const std::string& name, const json& changed) {
  const auto found =
      std::ranges::find_if(table_of, [&](const auto& entry) { return entry.name == name; });
  if (found == table_of.end()) {
    std::vector<std::string> names;
    for (const auto& entry : table_of) names.emplace_back(entry.name);
    return Error{ErrorKind::kNotFound, not_found(noun, name, names)};
  }
  json settings = settings_json(found->settings);
  for (json& s : settings)
    if (changed.contains(s["name"])) s["in_force"] = changed[s["name"].get<std::string>()];
  if (session.json()) return print(settings), Result<void>();
  std::cout << found->name << ": " << found->summary << "\n";
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
  struct Flags {
    std::string name;
    bool plans = false;
  };
  auto f = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("policies", "the policies, or with a NAME the settings of one");
  command->add_option("name", f->name, "such as has-gpu");
  command->add_flag("--plans", f->plans, "of training jobs: their plans, or the settings of one");
  command->callback([f, &session, &outcome] {
    outcome = Result<void>();
    if (f->name.empty())
      f->plans ? list_plans(session) : list_policies(session);
    else if (f->plans)
      outcome = show_settings(session, "plan", policy::plans(), f->name, json::object());
    else
      outcome = show_settings(session, "policy", policy::bundles(), f->name,
                              changed_by_platform(session, f->name));
  });
}

}  // namespace sluice::cli
