// `sluice run -- PROGRAM…`: runs an unmodified program under a slice. We put ourselves under it,
// then become the program: it and all its descendants are in the slice's cgroup, and a preloaded
// gate holds libtorch programs to it operator by operator; on a GPU any CUDA program, launch by
// launch.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>

#include "cli/session.h"
#include "wire/json.h"

namespace sluice::cli {
namespace {

using nlohmann::json;

struct RunFlags {
  std::string device = "cpu0", id;
  int quota = 20, limit = 0, sm = 100;
  std::vector<std::string> command;
};

Result<void> run(const Session& session, const RunFlags& f) {
  wire::HttpClient node({.path = session.run("node.sock")}, Seconds(10));
  const Slice slice{.sm = {f.sm * 10},
                    .quota = {{f.quota * 10}, {std::max(f.limit, f.quota) * 10}}};
  const std::string id = f.id.empty() ? "run-" + std::to_string(getpid()) : f.id;
  const auto taken = node.json(
      wire::http::verb::post, "/v1/processes",
      {{"id", id}, {"pid", getpid()}, {"device", f.device}, {"slice", wire::to_json(slice)}});
  if (!taken.ok()) return taken.error();
  const std::string gate = std::filesystem::read_symlink("/proc/self/exe").parent_path() /
                           taken->value("gate", "libsluice_gate.so");
  if (!std::filesystem::exists(gate))
    return Error{ErrorKind::kInternal,
                 gate + ": missing: without it a program is not held to its slice"};
  const json variables = taken->value("environment", json::object());
  for (const auto& [name, value] : variables.items())
    ::setenv(name.c_str(), value.get<std::string>().c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  const char* others = ::getenv("LD_PRELOAD");  // NOLINT(concurrency-mt-unsafe): one thread
  const std::string preloaded = others == nullptr ? gate : gate + ":" + others;
  ::setenv("LD_PRELOAD", preloaded.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  std::vector<char*> argv;
  for (const std::string& word : f.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  return Error{ErrorKind::kNotFound, f.command[0] + ": cannot be run"};
}

}  // namespace

void add_run(CLI::App& app, Session& session, Outcome& outcome) {
  auto f = std::make_shared<RunFlags>();
  CLI::App* command = app.add_subcommand("run", "run a program of your own under a slice");
  command->add_option("--device", f->device)->capture_default_str();
  command->add_option("--quota", f->quota, "share of time, per cent")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command->add_option("--limit", f->limit, "may use this much when others are idle, per cent")
      ->check(CLI::Range(0, 100));
  command->add_option("--sm", f->sm, "share of the device's cores or SMs, per cent")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command->add_option("--id", f->id, "how it is listed");
  command->add_option("command", f->command, "after --")->required();
  command->callback([=, &session, &outcome] { outcome = run(session, *f); });
}

}  // namespace sluice::cli
