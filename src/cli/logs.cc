// `sluice logs [NAME]`: prints the log of a process or an instance.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

#include "base/system_error.h"
#include "base/words.h"
#include "cli/decisions.h"
#include "cli/session.h"

namespace sluice::cli {
namespace {

constexpr size_t kMostLines = 1'000'000;

constexpr Nanos kLogPollInterval = Millis(200);

Result<std::vector<std::string>> names_of(const Session& session) {
  std::vector<std::string> names;
  std::error_code fault;
  for (const auto& entry : std::filesystem::directory_iterator(session.data + "/logs", fault))
    if (entry.path().extension() == ".log") names.push_back(entry.path().stem().string());
  if (fault && fault != std::errc::no_such_file_or_directory)
    return system_error(session.data + "/logs", fault.value());
  std::ranges::sort(names);
  return names;
}

Result<void> list(const Session& session) {
  SLUICE_ASSIGN(names, names_of(session));
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

struct LogFlags {
  std::string name;
  size_t lines = 100;
  bool follow = false;
  int rank = -1;
};

// Returns the name of the worker that has, or had last, that rank of a training function.
Result<std::string> worker_of(const Session& session, const std::string& function, int rank) {
  SLUICE_ASSIGN(f, session.api(wire::http::verb::get, session.function_path(function)));
  if (!f.contains("job"))
    return Error{ErrorKind::kInvalid, "--rank: " + function + " is no training function"};
  const auto members = f["job"].value("members", std::vector<std::string>());
  if (rank >= static_cast<int>(members.size()))
    return Error{ErrorKind::kNotFound, "--rank: " + std::to_string(rank) + ": " + function +
                                           " has " + std::to_string(members.size()) + " workers"};
  return members[static_cast<size_t>(rank)];
}

// Prints additions to the file from `at` on, until a signal ends this process. A file that was
// moved aside is read from its beginning.
[[noreturn]] void follow(const std::string& path, size_t at) {
  for (;;) {
    std::error_code fault;
    const auto size = std::filesystem::file_size(path, fault);
    if (!fault && size < at) at = 0;
    if (!fault && size > at) {
      std::ifstream in(path, std::ios::binary);
      in.seekg(static_cast<std::streamoff>(at));
      const std::string added{std::istreambuf_iterator<char>(in), {}};
      std::cout << added << std::flush;
      at += added.size();
    }
    std::this_thread::sleep_for(kLogPollInterval);
  }
}

Result<void> logs(const Session& session, const LogFlags& f) {
  std::string name = f.name;
  if (f.rank >= 0) {
    SLUICE_ASSIGN(worker, worker_of(session, f.name, f.rank));
    name = worker;
  }
  const std::string path = session.data + "/logs/" + name + ".log";
  std::error_code fault;
  const bool there = std::filesystem::exists(path, fault);
  if (fault) return system_error(path, fault.value());
  if (name.find('/') != name.npos || !there) {
    if (is_program(session, name))
      return Error{ErrorKind::kNotFound, "'" + name +
                                             "' is a program of `sluice run`: what it prints goes "
                                             "to where that was started, its terminal or a file"};
    SLUICE_ASSIGN(names, names_of(session));
    return Error{ErrorKind::kNotFound, not_found("log", name, names)};
  }
  if (f.follow && session.json())
    return Error{ErrorKind::kInvalid, "--follow: prints text only, not JSON"};
  SLUICE_ASSIGN(text, read_file(path));
  const Result<std::string> before = read_file(path + ".1");  // the part moved aside, if any
  const std::vector<std::string> lines = last_lines(before.ok() ? *before + text : text, f.lines);
  if (session.json()) {
    print({{"name", name}, {"lines", lines}});
  } else {
    for (const std::string& line : lines) std::cout << line << "\n";
  }
  std::cout << std::flush;
  if (f.follow) follow(path, text.size());
  return {};
}

}  // namespace

void add_logs(CLI::App& app, Session& session, Outcome& outcome) {
  auto f = std::make_shared<LogFlags>();
  CLI::App* command = app.add_subcommand(
      "logs", "what a process (node, control, gateway, zygote) or an instance printed");
  command->add_option("name", f->name, "whose; without: the names there are");
  command->add_option("--lines", f->lines, "the last ones")
      ->check(CLI::Range(size_t{1}, kMostLines))
      ->capture_default_str();
  command->add_option("--rank", f->rank, "of a training function: the worker with that rank")
      ->check(CLI::Range(0, 10'000));
  add_namespace(*command, session);
  command->add_flag("-f,--follow", f->follow, "go on with what is added, until Ctrl-C");
  command->callback(
      [=, &session, &outcome] { outcome = f->name.empty() ? list(session) : logs(session, *f); });
}

}  // namespace sluice::cli
