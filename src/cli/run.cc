// `sluice run -- PROGRAM…`: runs an unmodified program under a slice. We put ourselves under it,
// then become the program: it and all its descendants are in the slice's cgroup, and a preloaded
// gate holds libtorch programs to it operator by operator; on a GPU any CUDA program, launch by
// launch. A GPU may fail, and its node then ends the program: there a child of ours becomes it, and
// we stay to say so, and to start it again on another if that is wished. `sluice resize ID`:
// changes the slice while the program runs.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>

#include "cli/companion.h"
#include "cli/session.h"
#include "model/quantity.h"
#include "wire/json.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

constexpr int kDeviceFailed = 75;  // EX_TEMPFAIL of sysexits.h: another try may succeed

struct RunFlags {
  std::string device = "cpu0", id, memory, slo, function;
  int quota = 20, limit = 0, sm = 100;
  double tolerance = 0;
  bool restart = false;
  std::vector<std::string> command;
};

struct ResizeFlags {
  std::string id, memory, slo;
  std::optional<int> quota, limit, sm;
  std::optional<double> tolerance;
};

Result<Bytes> memory_of(const std::string& text) {
  Result<Bytes> parsed = sluice::parse_bytes(text);
  if (!parsed.ok()) parsed = Error{ErrorKind::kInvalid, "--memory: " + parsed.error().message};
  return parsed;
}

// "none", too.
Result<Nanos> slo_of(const std::string& text) {
  if (text == "none") return Nanos(0);
  Result<Nanos> parsed = sluice::parse_duration(text);
  if (!parsed.ok()) parsed = Error{ErrorKind::kInvalid, "--slo: " + parsed.error().message};
  return parsed;
}
int permille(double tolerance) {
  return static_cast<int>(std::lround(1000 * tolerance));
}

// What lies beside us under these names, in front of what one of the loader's variables has
// already.
Result<void> put_in_front(const char* variable, const std::vector<std::string>& names) {
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const char* others = ::getenv(variable);  // NOLINT(concurrency-mt-unsafe): one thread
  std::string all = others == nullptr ? "" : others;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    const std::string path = folder / *name;
    if (!std::filesystem::exists(path))
      return Error{ErrorKind::kInternal,
                   path + ": missing: without it a program is not held to its slice"};
    all = all.empty() ? path : path + ":" + all;
  }
  if (!all.empty()) ::setenv(variable, all.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  return {};
}

// Under a slice of the first of `devices` that has room; returns only where it cannot.
Error become_program(const Session& session, const RunFlags& f, const std::string& id,
                     const std::vector<DeviceId>& devices) {
  NodeClient node = session.node();
  Slice slice{.sm = {f.sm * 10}, .quota = {{f.quota * 10}, {std::max(f.limit, f.quota) * 10}}};
  if (!f.memory.empty()) {
    SLUICE_ASSIGN(memory, memory_of(f.memory));
    slice.memory = memory;
  }
  if (!f.slo.empty()) {
    SLUICE_ASSIGN(slo, slo_of(f.slo));
    slice.slo = slo;
  }
  slice.tolerance = permille(f.tolerance);
  Result<json> taken = Error{ErrorKind::kExhausted, "there is no other GPU"};
  for (const DeviceId& device : devices) {
    taken = node.json(verb::post, "/v1/processes",
                      {{"id", id},
                       {"pid", getpid()},
                       {"function", f.function},
                       {"device", device},
                       {"slice", wire::to_json(slice)}});
    if (taken.ok() || taken.error().kind != ErrorKind::kExhausted) break;
  }
  if (!taken.ok()) return taken.error();
  using Names = std::vector<std::string>;
  SLUICE_TRY(put_in_front("LD_PRELOAD", taken->value("preload", Names{"libsluice_gate.so"})));
  SLUICE_TRY(put_in_front("LD_LIBRARY_PATH", taken->value("library_path", Names{})));
  const json variables = taken->value("environment", json::object());
  for (const auto& [name, value] : variables.items())
    ::setenv(name.c_str(), value.get<std::string>().c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  std::vector<char*> argv;
  for (const std::string& word : f.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  return Error{ErrorKind::kNotFound, f.command[0] + ": cannot be run"};
}

// GPUs that take something new.
std::vector<DeviceId> sound_gpus(const json& state) {
  std::vector<DeviceId> ids;
  for (const json& d : state["devices"])
    if (d["kind"] == "cuda" && !d["drained"].get<bool>()) ids.push_back(d["id"]);
  return ids;
}

// Why the node has ended the program; empty: it has not.
std::string fault_that_ended(NodeClient node, const std::string& id) {
  const Result<json> record = node.json(verb::get, "/v1/processes/" + escaped(id));
  if (!record.ok() || record->value("device_fault", "").empty()) return "";
  return record->value("device", "") + " failed: " + record->value("device_fault", "");
}

Result<void> run(const Session& session, const RunFlags& f) {
  const std::string id = f.id.empty() ? "run-" + std::to_string(getpid()) : f.id;
  SLUICE_ASSIGN(state, session.node().json(verb::get, "/v1/state"));
  const auto& all = state["devices"];
  const bool can_fail = std::ranges::any_of(
      all, [&](const json& d) { return d["id"] == f.device && d["kind"] == "cuda"; });
  if (!can_fail && !state.value("backstop", true))
    std::cerr << "sluice: the platform has no cgroups: a program that is not PyTorch is not held "
                 "to its slice\n";
  if (!can_fail) return become_program(session, f, id, {f.device});

  std::vector<DeviceId> devices{f.device};
  for (int life = 1;; ++life) {
    const std::string name = life == 1 ? id : id + "-" + std::to_string(life);
    Companion program;
    if (program.in_child()) {
      const Error why = become_program(session, f, name, devices);
      program.could_not();
      return why;
    }
    const Companion::End end = program.wait();
    if (!end.was_program) std::exit(life == 1 ? end.status : kDeviceFailed);
    const std::string fault = fault_that_ended(session.node(), name);
    if (fault.empty()) std::exit(end.status);
    std::cerr << "sluice: " << name << " was ended: " << fault << "\n";
    if (!f.restart) std::exit(kDeviceFailed);
    SLUICE_ASSIGN(now, session.node().json(verb::get, "/v1/state"));
    devices = sound_gpus(now);
  }
}

// What a flag does not say stays as it is. The request may not pass the limit: it takes it along.
Result<void> resize(const Session& session, const ResizeFlags& f) {
  if (!f.quota && !f.limit && !f.sm && f.memory.empty() && f.slo.empty() && !f.tolerance)
    return Error{ErrorKind::kInvalid,
                 "say what to change: --quota, --limit, --sm, --memory, --slo or --tolerance"};
  NodeClient node = session.node();
  const std::string target = "/v1/processes/" + escaped(f.id);
  SLUICE_ASSIGN(record, node.json(verb::get, target));
  if (!record.value("foreign", false))
    return Error{ErrorKind::kInvalid,
                 f.id + " is an instance of a function: its slice is the policy's to change"};
  SLUICE_ASSIGN(slice, wire::slice_from(record.value("slice", json::object())));
  if (f.quota) slice.quota.request = {*f.quota * 10};
  if (f.limit) slice.quota.limit = {*f.limit * 10};
  if (f.sm) slice.sm = {*f.sm * 10};
  if (!f.limit) slice.quota.limit = std::max(slice.quota.limit, slice.quota.request);
  if (!f.memory.empty()) {
    if (slice.memory == 0)
      return Error{ErrorKind::kInvalid,
                   "--memory: " + f.id + " was started without one; it cannot be given it now"};
    SLUICE_ASSIGN(memory, memory_of(f.memory));
    slice.memory = memory;
  }
  if (!f.slo.empty()) {
    SLUICE_ASSIGN(slo, slo_of(f.slo));
    slice.slo = slo;
    if (slo == Nanos(0)) slice.tolerance = 0;
  }
  if (f.tolerance) slice.tolerance = permille(*f.tolerance);
  SLUICE_ASSIGN(changed, node.json(verb::patch, target, {{"slice", wire::to_json(slice)}}));
  // So that listings show it at once; to who may not ask for that they are closed, too.
  (void)session.api(verb::post, "/v1/turns");
  if (session.json())
    print(changed);
  else
    std::cout << f.id << ": quota " << sluice::format_share(slice.quota.request) << ", limit "
              << sluice::format_share(slice.quota.limit)
              << (f.sm ? ", sm " + sluice::format_share(slice.sm) : "")
              << (slice.memory > 0 ? ", memory " + sluice::format_bytes(slice.memory) : "")
              << (slice.slo > Nanos(0) ? ", slo " + sluice::format_duration(slice.slo) : "")
              << "\n";
  return {};
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
  command->add_option("--memory", f->memory,
                      "GPU memory it may hold, as 512Mi or 4G; without: all there is");
  command->add_option("--slo", f->slo,
                      "somebody waits for its iterations, each at most so long: 80ms");
  command->add_option("--tolerance", f->tolerance,
                      "with --slo: an iteration is slow beyond so many times the shortest "
                      "(arbiter introspective; 1.6)");
  command->add_option("--id", f->id, "how it is listed");
  command->add_option("--function", f->function,
                      "programs of one function share models on a GPU; without: its id");
  command->add_flag("--restart", f->restart,
                    "where its GPU fails, start it again on another; else it ends with code 75");
  command->add_option("command", f->command, "after --")->required();
  command->callback([=, &session, &outcome] { outcome = run(session, *f); });

  auto r = std::make_shared<ResizeFlags>();
  CLI::App* again =
      app.add_subcommand("resize", "change the slice of a program that `sluice run` started");
  again->add_option("id", r->id, "as `sluice get instances` lists it")->required();
  again->add_option("--quota", r->quota, "share of time, per cent")->check(CLI::Range(1, 100));
  again->add_option("--limit", r->limit, "may use this much when others are idle, per cent")
      ->check(CLI::Range(1, 100));
  again->add_option("--sm", r->sm, "share of the device's cores or SMs, where these may change")
      ->check(CLI::Range(1, 100));
  again->add_option("--memory", r->memory,
                    "GPU memory it may hold; what it holds already it keeps");
  again->add_option("--slo", r->slo, "each of its iterations takes at most so long, or none");
  again->add_option("--tolerance", r->tolerance, "slow beyond so many times the shortest");
  again->callback([=, &session, &outcome] { outcome = resize(session, *r); });
}

}  // namespace sluice::cli
