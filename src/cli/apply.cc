// `sluice apply -f FILE…`: makes functions what the files say. Idempotent.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>

#include "cli/session.h"

namespace sluice::cli {
namespace {

// A folder stands for the function files in it, by name.
Result<std::vector<std::string>> with_folders_opened(const std::vector<std::string>& named) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const std::string& name : named) {
    if (!fs::is_directory(name)) {
      files.push_back(name);
      continue;
    }
    std::vector<std::string> inside;
    for (const fs::directory_entry& entry : fs::directory_iterator(name)) {
      const std::string kind = entry.path().extension();
      if (kind == ".yaml" || kind == ".yml" || kind == ".json") inside.push_back(entry.path());
    }
    if (inside.empty())
      return Error{ErrorKind::kNotFound, name + ": no .yaml, .yml or .json file in this folder"};
    std::ranges::sort(inside);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

Result<void> apply(const Session& session, const std::vector<std::string>& named, bool dry) {
  SLUICE_ASSIGN(files, with_folders_opened(named));
  nlohmann::json all = nlohmann::json::array();
  for (const std::string& file : files) {
    SLUICE_ASSIGN(text, read_file(file));
    const std::string folder = file == "-" ? std::filesystem::current_path()
                                           : std::filesystem::absolute(file).parent_path();
    const std::string target = "/v1/functions?file=" + escaped(file) +
                               "&folder=" + escaped(folder) + "&home=" + escaped(home()) +
                               (dry ? "&dry_run=1" : "");
    SLUICE_ASSIGN(answer,
                  session.api_raw(wire::http::verb::post, target, text, "application/yaml"));
    SLUICE_ASSIGN(body, wire::parse_json(answer.body()));
    if (answer.result_int() != 200)
      return Error{wire::error_kind(static_cast<int>(answer.result_int())),
                   body.value("error", answer.body())};
    for (const auto& result : body["results"]) {
      all.push_back(result);
      if (session.json()) continue;
      std::cout << result["function"].get<std::string>() << " revision " << result["revision"]
                << " " << result["action"].get<std::string>() << (dry ? " (dry run)" : "") << "\n";
      for (const auto& line : result["difference"])
        std::cout << "  " << line.get<std::string>() << "\n";
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
