// `sluice logs [NAME]`: prints the log of a process or an instance, or those of a function.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

#include "base/printable.h"
#include "base/system_error.h"
#include "base/words.h"
#include "cli/decisions.h"
#include "cli/session.h"

namespace sluice::cli {
namespace {

constexpr size_t kMostLines = 1'000'000;
constexpr size_t kServedInId = 40;  // as much of a function's name as an instance's id has
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
  if (!f.contains("job")) return within("--rank", no_job(function));
  const auto members = f["job"].value("members", std::vector<std::string>());
  if (rank >= static_cast<int>(members.size()))
    return Error{ErrorKind::kNotFound, "--rank: " + std::to_string(rank) + ": " + function +
                                           " has " + std::to_string(members.size()) + " workers"};
  return members[static_cast<size_t>(rank)];
}

// Returns whether a log is of an instance of the function: FUNCTION-REVISION-abc12.
bool is_of(const FunctionName& f, const std::string& log) {
  const std::string served = f.space == "default" ? f.name : f.space + "." + f.name;
  const std::string prefix = served.substr(0, kServedInId) + "-";
  if (!log.starts_with(prefix)) return false;
  const size_t end = log.find_first_not_of("0123456789", prefix.size());
  return end != log.npos && end > prefix.size() && log[end] == '-' &&
         log.find('-', end + 1) == log.npos;
}

// Returns the logs of a function's instances that run; if none does, that of the last one to write.
std::vector<std::string> logs_of(const Session& session, const FunctionName& f,
                                 std::vector<std::string> names) {
  std::erase_if(names, [&](const std::string& name) { return !is_of(f, name); });
  const auto rows = session.api(wire::http::verb::get, "/v1/instances");
  std::vector<std::string> running;
  for (const nlohmann::json& i : rows.ok() ? *rows : nlohmann::json::array())
    if (i.value("function", "") == to_string(f) && i.value("state", "gone") != "gone" &&
        std::ranges::find(names, i.value("id", "")) != names.end())
      running.push_back(i.value("id", ""));
  if (!running.empty() || names.empty()) return running;
  const auto written = [&](const std::string& name) {
    std::error_code fault;
    const auto at =
        std::filesystem::last_write_time(session.data + "/logs/" + name + ".log", fault);
    return std::pair(at, name);
  };
  return {*std::ranges::max_element(names, {}, written)};
}

struct Log {
  std::string name, path;
  std::string before;  // each line: its name, where several are shown
  size_t at = 0;       // printed up to here
};

Result<std::vector<std::string>> read_last(Log& log, size_t lines) {
  SLUICE_ASSIGN(text, read_file(log.path));
  const Result<std::string> before = read_file(log.path + ".1");  // the part moved aside, if any
  log.at = text.size();
  return last_lines(before.ok() ? *before + text : text, lines);
}

// Prints additions to the files, until a signal ends this process. A file that was moved aside is
// read from its beginning.
[[noreturn]] void follow(std::vector<Log> logs) {
  for (;;) {
    for (Log& log : logs) {
      std::error_code fault;
      const auto size = std::filesystem::file_size(log.path, fault);
      if (!fault && size < log.at) log.at = 0;
      if (fault || size <= log.at) continue;
      std::ifstream in(log.path, std::ios::binary);
      in.seekg(static_cast<std::streamoff>(log.at));
      std::string added(size - log.at, 0);
      added.resize(static_cast<size_t>(in.read(added.data(), std::ssize(added)).gcount()));
      added.erase(added.rfind('\n') + 1);  // whole lines
      log.at += added.size();
      for (const std::string& line : last_lines(added, kMostLines))
        std::cout << log.before << printable(line, SIZE_MAX) << "\n";
      std::cout << std::flush;
    }
    std::this_thread::sleep_for(kLogPollInterval);
  }
}

// Returns the logs that a name stands for: one by that name, or those of a function.
Result<std::vector<Log>> logs_named(const Session& session, const std::string& name) {
  const std::string folder = session.data + "/logs/";
  std::error_code fault;
  const bool there = std::filesystem::exists(folder + name + ".log", fault);
  if (fault) return system_error(folder + name + ".log", fault.value());
  if (there && name.find('/') == name.npos)
    return std::vector<Log>{{.name = name, .path = folder + name + ".log"}};
  SLUICE_ASSIGN(names, names_of(session));
  std::vector<Log> logs;
  for (const std::string& log : logs_of(session, session.named(name), names))
    logs.push_back({.name = log, .path = folder + log + ".log"});
  if (logs.size() > 1)
    for (Log& log : logs) log.before = log.name + ": ";
  if (!logs.empty()) return logs;
  if (is_program(session, name))
    return Error{ErrorKind::kNotFound, "'" + name +
                                           "' is a program of `sluice run`: what it prints goes "
                                           "to where that was started, its terminal or a file"};
  return Error{ErrorKind::kNotFound, not_found("log", name, names)};
}

Result<void> logs(const Session& session, const LogFlags& f) {
  std::string name = f.name;
  if (f.rank >= 0) {
    SLUICE_ASSIGN(worker, worker_of(session, f.name, f.rank));
    name = worker;
  }
  SLUICE_ASSIGN(logs, logs_named(session, name));
  if (f.follow && session.json())
    return Error{ErrorKind::kInvalid, "--follow: prints text only, not JSON"};
  nlohmann::json all = nlohmann::json::array();
  for (Log& log : logs) {
    SLUICE_ASSIGN(lines, read_last(log, f.lines));
    all.push_back({{"name", log.name}, {"lines", lines}});
    if (session.json()) continue;
    for (const std::string& line : lines)
      std::cout << log.before << printable(line, SIZE_MAX) << "\n";
  }
  if (session.json()) print(all.size() == 1 ? all[0] : all);
  std::cout << std::flush;
  if (f.follow) follow(std::move(logs));
  return {};
}

}  // namespace

void add_logs(CLI::App& app, Session& session, Outcome& outcome) {
  auto f = std::make_shared<LogFlags>();
  CLI::App* command = app.add_subcommand("logs",
                                         "what a process (node, control, gateway, zygote), an "
                                         "instance, or the instances of a function "
                                         "printed");
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
