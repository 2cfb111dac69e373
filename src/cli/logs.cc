// `sluice logs [NAME]`: what a process or an instance printed.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

#include "cli/session.h"

namespace sluice::cli {
namespace {

Result<void> logs(const Session& session, const std::string& name, size_t lines) {
  const std::string folder = session.data + "/logs";
  if (name.empty() || name.find('/') != name.npos ||
      !std::filesystem::exists(folder + "/" + name + ".log")) {
    std::string known;
    std::error_code fault;
    for (const auto& entry : std::filesystem::directory_iterator(folder, fault))
      known += "\n  " + entry.path().stem().string();
    if (!name.empty())
      return Error{ErrorKind::kNotFound, "no log of '" + name + "'; there are:" + known};
    std::cout << "logs of:" << known << "\n";
    return {};
  }
  SLUICE_ASSIGN(text, read_file(folder + "/" + name + ".log"));
  size_t at = text.size();
  for (size_t n = 0; n <= lines && at != 0 && at != text.npos; ++n) at = text.rfind('\n', at - 1);
  std::cout << (at == text.npos || at == 0 ? text : text.substr(at + 1));
  return {};
}

}  // namespace

void add_logs(CLI::App& app, Session& session, Outcome& outcome) {
  auto name = std::make_shared<std::string>();
  auto lines = std::make_shared<size_t>(100);
  CLI::App* command = app.add_subcommand(
      "logs", "what a process (node, control, gateway, zygote) or an instance printed");
  command->add_option("name", *name);
  command->add_option("--lines", *lines, "the last ones")->capture_default_str();
  command->callback([=, &session, &outcome] { outcome = logs(session, *name, *lines); });
}

}  // namespace sluice::cli
