// `sluice explain [FIELD]`: what a function file may say, from the table of fields; `--schema`: the
// same as a JSON schema, for editors.
#include <CLI/CLI.hpp>
#include <iostream>

#include "base/words.h"
#include "cli/session.h"
#include "cli/table.h"
#include "control/spec/function_schema.h"
#include "model/function_fields.h"

namespace sluice::cli {
namespace {

using nlohmann::json;

struct Explained {
  std::string name, allowed, unset, meaning;
};

Explained explained(const OtherField& f) {
  return {std::string(f.name), plain_meaning(f.allowed), plain_meaning(f.unset),
          plain_meaning(f.meaning)};
}

Explained explained(const FunctionField& f, const FunctionSpec& blank) {
  const std::string section(section_of(f));
  const std::string needed = "must stand" + (section.empty() ? "" : " in " + section);
  return {std::string(f.name), plain_meaning(allowed_text(f, blank)),
          f.wanted.empty() ? value_text(f, blank) : needed, plain_meaning(f.meaning)};
}

std::vector<Explained> all_fields(bool training) {
  FunctionSpec blank;
  if (training) blank.kind = TrainingSpec{};
  std::vector<Explained> all;
  for (const OtherField& f : training ? other_training_fields() : other_fields())
    all.push_back(explained(f));
  for (const FunctionField* f : fields_of(blank)) all.push_back(explained(*f, blank));
  return all;
}

// Of the field, or of those below it; of all without a name. "spec." before it is allowed.
Result<std::vector<Explained>> fields_named(std::string name, bool training) {
  if (name.starts_with("spec.")) name.erase(0, 5);
  std::vector<Explained> found;
  std::vector<std::string> names;
  for (Explained& f : all_fields(training)) {
    names.push_back(f.name);
    if (name.empty() || f.name == name || f.name.starts_with(name + "."))
      found.push_back(std::move(f));
  }
  if (!found.empty()) return found;
  return Error{ErrorKind::kNotFound, "'" + name + "' is no field of a function file" +
                                         did_you_mean(name, names) + " (sluice explain" +
                                         (training ? " --training" : "") + " lists them)"};
}

void print_one(const Explained& f) {
  std::cout << f.name << ": " << f.meaning << "\n  allowed: " << f.allowed
            << "\n  default: " << f.unset << "\n";
}

void print_table(const std::vector<Explained>& fields) {
  Table table({"FIELD", "ALLOWED", "DEFAULT", "MEANING"});
  for (const Explained& f : fields) table.add({f.name, f.allowed, f.unset, f.meaning});
  std::cout << table.text();
}

Result<void> explain(const Session& session, const std::string& name, bool training) {
  SLUICE_ASSIGN(fields, fields_named(name, training));
  if (session.json()) {
    json all = json::array();
    for (const Explained& f : fields)
      all.push_back(
          {{"name", f.name}, {"allowed", f.allowed}, {"default", f.unset}, {"meaning", f.meaning}});
    print(all);
  } else if (fields.size() == 1) {
    print_one(fields.front());
  } else {
    print_table(fields);
  }
  return {};
}

}  // namespace

void add_explain(CLI::App& app, Session& session, Outcome& outcome) {
  struct Flags {
    std::string field;
    bool training = false, schema = false;
  };
  auto f = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("explain", "the fields of function files");
  command->add_option("field", f->field, "such as slo.latency, or slo for all below it");
  command->add_flag("--training", f->training, "of a TrainingFunction");
  command->add_flag("--schema", f->schema, "print a JSON schema of function files, for editors");
  command->callback([f, &session, &outcome] {
    if (!f->schema) {
      outcome = explain(session, f->field, f->training);
      return;
    }
    std::cout << control::file_schema().dump(2) << "\n";
    outcome = Result<void>();
  });
}

}  // namespace sluice::cli
