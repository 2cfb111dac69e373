// `sluice logs [NAME]`: what a process or an instance printed.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "base/system_error.h"
#include "cli/session.h"

namespace sluice::cli {
namespace {

constexpr size_t kMostLines = 1'000'000;

Result<void> list(const Session& session) {
  std::vector<std::string> names;
  std::error_code fault;
  for (const auto& entry : std::filesystem::directory_iterator(session.data + "/logs", fault))
    if (entry.path().extension() == ".log") names.push_back(entry.path().stem().string());
  if (fault && fault != std::errc::no_such_file_or_directory)
    return system_error(session.data + "/logs", fault.value());
  std::ranges::sort(names);
  if (session.json()) {
    print(names);
  } else {
    for (const std::string& name : names) std::cout << name << "\n";
  }
  return {};
}

std::vector<std::string> last_lines(const std::string& text, size_t count) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<ptrdiff_t>(count));
  return lines;
}

Result<void> logs(const Session& session, const std::string& name, size_t count) {
  const std::string path = session.data + "/logs/" + name + ".log";
  std::error_code fault;
  const bool there = std::filesystem::exists(path, fault);
  if (fault) return system_error(path, fault.value());
  if (name.find('/') != name.npos || !there)
    return Error{ErrorKind::kNotFound,
                 "there is no log of '" + name + "' (sluice logs lists what there is)"};
  SLUICE_ASSIGN(text, read_file(path));
  const Result<std::string> before = read_file(path + ".1");  // what was moved aside, if anything
  const std::vector<std::string> lines = last_lines(before.ok() ? *before + text : text, count);
  if (session.json()) {
    print({{"name", name}, {"lines", lines}});
  } else {
    for (const std::string& line : lines) std::cout << line << "\n";
  }
  return {};
}

}  // namespace

void add_logs(CLI::App& app, Session& session, Outcome& outcome) {
  auto name = std::make_shared<std::string>();
  auto lines = std::make_shared<size_t>(100);
  CLI::App* command = app.add_subcommand(
      "logs", "what a process (node, control, gateway, zygote) or an instance printed");
  command->add_option("name", *name, "whose; without: the names there are");
  command->add_option("--lines", *lines, "the last ones")
      ->check(CLI::Range(size_t{1}, kMostLines))
      ->capture_default_str();
  command->callback([=, &session, &outcome] {
    outcome = name->empty() ? list(session) : logs(session, *name, *lines);
  });
}

}  // namespace sluice::cli
