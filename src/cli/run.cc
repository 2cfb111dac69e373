// `sluice run -- PROGRAM…`: runs an unmodified program under a slice. This process puts itself
// under it, then becomes the program: it and all its descendants are in the slice's cgroup. A
// preloaded gate holds libtorch programs to it operator by operator; on a GPU the hook holds any
// CUDA program, launch by launch. A GPU may fail, and its node then ends the program. There a child
// becomes the program, and this process stays to report that, and on request to start it again on
// another GPU. `sluice resize ID`: changes the slice while the program runs.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <sstream>

#include "cli/companion.h"
#include "cli/limits.h"
#include "cli/run_devices.h"
#include "cli/session.h"
#include "model/quantity.h"
#include "node/program_environment.h"
#include "process/spawn.h"
#include "wire/json/json.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

constexpr int kDeviceFailed = 75;  // EX_TEMPFAIL of sysexits.h: another try may succeed

struct Shares {
  std::optional<int> quota, limit, sm;  // in permille
};

struct RunFlags {
  std::string device, id, memory, slo, function;
  Shares shares{.quota = 200, .limit = {}, .sm = 1000};
  double tolerance = 0;
  bool restart = false;
  std::vector<std::string> command;
};

struct ResizeFlags {
  std::string id, memory, slo;
  Shares shares;
  std::optional<double> tolerance;
};

// Puts the shares in the flags into `slice`. A limit without a flag follows a request that it is
// equal to, and rises to one above it.
Result<void> take_shares(const Shares& f, Slice& slice) {
  auto& [request, limit] = slice.quota;
  const bool borrows = limit > request;
  if (f.sm) slice.sm = {*f.sm};
  if (f.quota) request = {*f.quota};
  limit = f.limit ? Share{*f.limit} : borrows ? std::max(limit, request) : request;
  if (limit >= request) return {};
  return Error{ErrorKind::kInvalid, "--limit: " + sluice::format_share(limit) +
                                        " is below the quota of " + sluice::format_share(request)};
}

Result<Bytes> memory_of(const std::string& text) {
  Result<Bytes> parsed = sluice::parse_bytes(text);
  if (!parsed.ok()) parsed = Error{ErrorKind::kInvalid, "--memory: " + parsed.error().message};
  return parsed;
}

// Also accepts "none".
Result<Nanos> slo_of(const std::string& text) {
  if (text == "none") return Nanos(0);
  Result<Nanos> parsed = sluice::parse_duration(text);
  if (!parsed.ok()) parsed = Error{ErrorKind::kInvalid, "--slo: " + parsed.error().message};
  return parsed;
}
int permille(double tolerance) {
  return static_cast<int>(std::lround(1000 * tolerance));
}

// Returns the node's environment for a program under a slice.
node::ProgramEnvironment environment_from(const json& taken) {
  using Names = std::vector<std::string>;
  return {.preload = taken.value("preload", Names{"libsluice_gate.so"}),
          .library_path = taken.value("library_path", Names{}),
          .variables = taken.value("environment", node::Variables{})};
}

// The devices of a program, a part on each.
using Devices = std::vector<DeviceId>;

std::vector<Devices> one_of(const std::vector<DeviceId>& ids) {
  std::vector<Devices> choices;
  for (const DeviceId& id : ids) choices.push_back({id});
  return choices;
}

// Splits "cuda0,cuda1".
Devices devices_in(const std::string& flag) {
  Devices ids;
  std::istringstream words(flag);
  for (std::string id; std::getline(words, id, ',');) ids.push_back(id);
  return ids;
}

// Becomes the program under a slice of each device of the first of `choices` with enough free;
// returns only if it cannot. `reserved` says how full the devices are.
Error become_program(const Session& session, const RunFlags& f, const std::string& id,
                     const std::vector<Devices>& choices, const std::string& reserved) {
  NodeClient node = session.node();
  Slice slice;
  SLUICE_TRY(take_shares(f.shares, slice));
  if (!f.memory.empty()) {
    SLUICE_ASSIGN(memory, memory_of(f.memory));
    slice.memory = memory;
  }
  if (!f.slo.empty()) {
    SLUICE_ASSIGN(slo, slo_of(f.slo));
    slice.slo = slo;
  }
  slice.tolerance = permille(f.tolerance);
  Result<json> taken = Error{ErrorKind::kExhausted, "no device takes anything new"};
  Devices chosen;
  for (const Devices& devices : choices) {
    chosen = devices;
    json parts = json::array();
    for (const DeviceId& device : devices)
      parts.push_back({{"device", device}, {"slice", wire::to_json(slice)}});
    taken = node.json(
        verb::post, "/v1/processes",
        {{"id", id}, {"pid", getpid()}, {"function", f.function}, {"parts", std::move(parts)}});
    if (taken.ok() || taken.error().kind != ErrorKind::kExhausted) break;
  }
  if (!taken.ok()) {
    Error why = taken.error();
    if (why.kind == ErrorKind::kExhausted && !reserved.empty()) why.message += "; " + reserved;
    return why;
  }
  if (f.device.empty())
    std::cerr << "sluice: " << id << " runs on " << chosen.front()
              << ", the first device with room\n";
  const auto beside_us = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  SLUICE_ASSIGN(variables,
                node::with_environment(node::own_variables(), environment_from(*taken), beside_us));
  std::vector<std::string> words = f.command, settings = node::as_words(variables);
  ::execvpe(words[0].c_str(), node::pointers_to(words).data(), node::pointers_to(settings).data());
  return Error{ErrorKind::kNotFound, f.command[0] + ": cannot be run"};
}

// Returns why the node has ended the program; empty if it has not.
std::string fault_that_ended(NodeClient node, const std::string& id) {
  const Result<json> record = node.json(verb::get, "/v1/processes/" + escaped(id));
  const Result<json> state = node.json(verb::get, "/v1/state");
  if (!record.ok() || !state.ok() || record->value("device_fault", "").empty()) return "";
  return failed_device(*state, *record) + " failed: " + record->value("device_fault", "");
}

Result<void> run(const Session& session, const RunFlags& f) {
  const std::string id = f.id.empty() ? "run-" + std::to_string(getpid()) : f.id;
  SLUICE_ASSIGN(state, session.node().json(verb::get, "/v1/state"));
  const Devices named = devices_in(f.device);
  const std::string kind = named.empty() ? "cpu" : kind_of(state, named[0]);
  const bool can_fail = kind == "cuda";
  if (f.restart && named.size() > 1)
    return Error{ErrorKind::kInvalid, "--restart: is for a program on one device"};
  std::string reserved = reserved_text(state, kind);
  std::vector<Devices> choices{named};
  if (named.empty()) choices = one_of(sound_devices(state, kind));
  if (!can_fail && !state.value("backstop", true))
    std::cerr << "sluice: the platform has no cgroups: a program that is not PyTorch is not held "
                 "to its slice\n";
  if (!can_fail) return become_program(session, f, id, choices, reserved);

  for (int life = 1;; ++life) {
    const std::string name = life == 1 ? id : id + "-" + std::to_string(life);
    Companion program;
    if (program.in_child()) {
      const Error why = become_program(session, f, name, choices, reserved);
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
    choices = one_of(sound_devices(now, kind));
    reserved = reserved_text(now, kind);
  }
}

// A share without a flag stays, but the limit (take_shares).
Result<void> change(const ResizeFlags& f, Slice& slice) {
  SLUICE_TRY(take_shares(f.shares, slice));
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
  return {};
}

// Adds to a refusal for lack of room where there is some.
Error with_room(NodeClient& node, const Instance& program, Error why) {
  if (why.kind != ErrorKind::kExhausted) return why;
  const auto state = node.json(verb::get, "/v1/state");
  const std::string reserved =
      state.ok() ? reserved_text(*state, kind_of(*state, program.device())) : "";
  if (!reserved.empty())
    why.message += "; " + reserved + "; to use another device, a program has to be started there";
  return why;
}

// Changes the slice of each part.
Result<void> resize(const Session& session, const ResizeFlags& f) {
  const auto& [quota, limit, sm] = f.shares;
  if (!quota && !limit && !sm && f.memory.empty() && f.slo.empty() && !f.tolerance)
    return Error{ErrorKind::kInvalid,
                 "say what to change: --quota, --limit, --sm, --memory, --slo or --tolerance"};
  NodeClient node = session.node();
  const std::string target = "/v1/processes/" + escaped(f.id);
  SLUICE_ASSIGN(record, node.json(verb::get, target));
  if (!record.value("foreign", false))
    return Error{ErrorKind::kInvalid,
                 f.id + " is an instance of a function: its slice is the policy's to change"};
  SLUICE_ASSIGN(program, wire::instance_from(record));
  json parts = json::array();
  for (Part& part : program.parts) {
    SLUICE_TRY(change(f, part.slice));
    parts.push_back({{"device", part.device}, {"slice", wire::to_json(part.slice)}});
  }
  const Slice& slice = program.slice();
  const auto changed = node.json(verb::patch, target, {{"parts", std::move(parts)}});
  if (!changed.ok()) return with_room(node, program, changed.error());
  // Lets listings show it at once; fails for callers without access to the API.
  (void)session.api(verb::post, "/v1/turns");
  if (session.json())
    print(*changed);
  else
    std::cout << f.id << ": quota " << sluice::format_share(slice.quota.request) << ", limit "
              << sluice::format_share(slice.quota.limit)
              << (sm ? ", sm " + sluice::format_share(slice.sm) : "")
              << (slice.memory > 0 ? ", memory " + sluice::format_bytes(slice.memory) : "")
              << (slice.slo > Nanos(0) ? ", slo " + sluice::format_duration(slice.slo) : "")
              << "\n";
  return {};
}

void add_shares(CLI::App& command, Shares& shares, const std::string& about_sm) {
  const auto add = [&](const char* name, std::optional<int>& permille, const std::string& about) {
    command.add_option(name, permille, about)->transform(share_in_permille())->type_name("SHARE");
  };
  add("--quota", shares.quota, "share of time: 30%, 30 or 0.3");
  add("--limit", shares.limit, "share of time that it may use while others are idle");
  add("--sm", shares.sm, about_sm);
}

}  // namespace

void add_run(CLI::App& app, Session& session, Outcome& outcome) {
  auto f = std::make_shared<RunFlags>();
  CLI::App* command = app.add_subcommand("run", "run a program of your own under a slice");
  command->add_option("--device", f->device,
                      "several GPUs as cuda0,cuda1: a slice of each; without: the first CPU device "
                      "with room");
  add_shares(*command, f->shares, "share of the device's cores or SMs");
  command->get_option("--quota")->default_str("20%");
  command->get_option("--sm")->default_str("100%");
  command->add_option("--memory", f->memory,
                      "GPU memory it may hold, as 512Mi or 4G; without: all there is");
  command->add_option("--slo", f->slo,
                      "a client waits for its iterations, each at most so long: 80ms");
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
  add_shares(*again, r->shares, "share of the device's cores or SMs, where these may change");
  again->add_option("--memory", r->memory,
                    "GPU memory it may hold; what it holds already it keeps");
  again->add_option("--slo", r->slo, "each of its iterations takes at most so long, or none");
  again->add_option("--tolerance", r->tolerance, "slow beyond so many times the shortest");
  again->callback([=, &session, &outcome] { outcome = resize(session, *r); });
}

}  // namespace sluice::cli
