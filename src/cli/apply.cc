// `sluice apply -f FILE…`: makes functions what the files say. Idempotent.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>

#include "base/system_error.h"
#include "cli/session.h"

namespace sluice::cli {
namespace {

using nlohmann::json;

struct FunctionFile {
  std::string name, folder, text;
};

// A folder stands for the function files in it, by name.
Result<std::vector<std::string>> with_folders_opened(const std::vector<std::string>& named) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const std::string& name : named) {
    std::error_code fault;
    if (!fs::is_directory(name, fault)) {
      files.push_back(name);
      continue;
    }
    std::vector<std::string> inside;
    for (fs::directory_iterator at(name, fault), end; !fault && at != end; at.increment(fault)) {
      const std::string kind = at->path().extension();
      if (kind == ".yaml" || kind == ".yml" || kind == ".json") inside.push_back(at->path());
    }
    if (fault) return system_error(name, fault.value());
    if (inside.empty())
      return Error{ErrorKind::kNotFound, name + ": no .yaml, .yml or .json file in this folder"};
    std::ranges::sort(inside);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

Result<std::vector<FunctionFile>> read_files(const std::vector<std::string>& named) {
  SLUICE_ASSIGN(names, with_folders_opened(named));
  std::vector<FunctionFile> files;
  for (const std::string& name : names) {
    SLUICE_ASSIGN(text, read_file(name));
    files.push_back({name,
                     name == "-" ? std::filesystem::current_path()
                                 : std::filesystem::absolute(name).parent_path(),
                     text});
  }
  return files;
}

// What became of a file's functions, or would.
Result<json> apply_file(const Session& session, const FunctionFile& file, bool dry) {
  const std::string target = "/v1/functions?file=" + escaped(file.name) +
                             "&folder=" + escaped(file.folder) + "&home=" + escaped(home()) +
                             (dry ? "&dry_run=1" : "");
  SLUICE_ASSIGN(answer,
                session.api_raw(wire::http::verb::post, target, file.text, "application/yaml"));
  SLUICE_ASSIGN(body, wire::parse_json(answer.body()));
  if (answer.result_int() != 200)
    return Error{wire::error_kind(static_cast<int>(answer.result_int())),
                 body.value("error", answer.body())};
  return body["results"];
}

void print_result(const json& result, bool dry) {
  std::cout << result["function"].get<std::string>() << " revision " << result["revision"] << " "
            << result["action"].get<std::string>() << (dry ? " (dry run)" : "") << "\n";
  for (const auto& line : result["difference"])
    std::cout << "  " << line.get<std::string>() << "\n";
}

Result<void> apply(const Session& session, const std::vector<std::string>& named, bool dry) {
  SLUICE_ASSIGN(files, read_files(named));
  // A file is applied as a whole or not at all; of several, all are checked before one is applied.
  if (files.size() > 1)
    for (const FunctionFile& file : files) {
      const auto checked = apply_file(session, file, true);
      if (!checked.ok()) return checked.error();
    }
  json all = json::array();
  for (const FunctionFile& file : files) {
    SLUICE_ASSIGN(results, apply_file(session, file, dry));
    for (const json& result : results) {
      all.push_back(result);
      if (!session.json()) print_result(result, dry);
    }
  }
  if (session.json()) print(all);
  return {};
}

}  // namespace

void add_apply(CLI::App& app, Session& session, Outcome& outcome) {
  auto files = std::make_shared<std::vector<std::string>>();
  auto dry = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("apply", "make functions what files say");
  command
      ->add_option("-f,--filename", *files,
                   "function files, or folders of them; - is standard input")
      ->required();
  command->add_flag("--dry-run", *dry, "show the difference, change nothing");
  command->callback([=, &session, &outcome] { outcome = apply(session, *files, *dry); });
}

}  // namespace sluice::cli
