#include "node/registry.h"

#include <fcntl.h>

#include <cerrno>

#include "base/fd.h"
#include "base/replace_file.h"
#include "base/system_error.h"
#include "wire/json/birth_json.h"
#include "wire/permit_steps.h"

namespace sluice::node {
namespace {

using nlohmann::json;

constexpr int kVersion = 2;  // 1: an instance had one part, and no "parts"
constexpr int64_t kMost = INT64_MAX;

json kept(const LocalDevice& d) {
  return {{"device", wire::to_json(d.device)}, {"cores", d.cores}};
}

Result<ProcessIdentity> process_from(const json& object) {
  wire::Fields f(object, "process");
  ProcessIdentity p;
  p.pid = static_cast<pid_t>(f.integer("pid", 0, 1, INT32_MAX));
  p.start_time = static_cast<uint64_t>(f.integer("start_time", 0, 0, kMost));
  return f.finish(p);
}

json kept(const InstanceRecord& r) {
  json out = wire::to_json(r.instance);
  out.update({{"started_ns", r.instance.started.time_since_epoch().count()},
              {"foreign", r.foreign},
              {"socket", r.socket},
              {"log", r.log},
              {"uid", r.uid},
              {"pid", r.process.pid},
              {"start_time", r.process.start_time},
              {"siblings", siblings_json(r)},
              {"program", r.program},
              {"pod", r.pod},
              {"owner_pid", r.owner.pid},
              {"owner_start_time", r.owner.start_time},
              {"ready_after_ms", r.ready_after_ms},
              {"ended", r.ended},
              {"used_ns", r.used.count()},
              {"device_fault", r.device_fault},
              {"error", r.error},
              {"stopped", r.stopped},
              {"node_fault", r.node_fault}});
  // Sets "program" to the file that it executes.
  if (const auto* program = std::get_if<ExecOfProgram>(&r.birth))
    out["exec"] = wire::to_json(*program);
  else
    out.update(wire::to_json(r.birth));
  return out;
}

Result<LocalDevice> device_from(const json& object) {
  wire::Fields f(object, "device");
  LocalDevice d{.device = f.part<Device>("device", wire::device_from)};
  for (const json& core : f.list("cores")) {
    if (!core.is_number_integer())
      f.fail("cores", "holds something that is not a number");
    else
      d.cores.push_back(core.get<int>());
  }
  if (d.device.id.empty()) f.fail("device", "has no id");
  return f.finish(d);
}

Result<InstanceRecord> record_from(const json& object) {
  wire::Fields f(object, "instance");
  InstanceRecord r;
  if (Result<Instance> i = wire::instance_from(object); i.ok())
    r.instance = *i;
  else
    return i.error();
  for (const char* key : {"state", "pid", "start_time"})
    if (f.child(key) == nullptr) f.fail(key, "is missing");
  r.instance.started = Time(Nanos(f.integer("started_ns", 0, 0, kMost)));
  r.foreign = f.boolean("foreign", false);
  if (f.child("exec") != nullptr)
    r.birth = f.part<ExecOfProgram>("exec", wire::program_from);
  else
    r.birth = ForkOfTemplate{f.part<ModelSpec>("model", wire::model_spec_from),
                             f.part<Batching>("batching", wire::batching_from)};
  r.socket = f.text("socket");
  r.log = f.text("log");
  r.uid = static_cast<uid_t>(f.integer("uid", 0, 0, UINT32_MAX));
  r.process.pid = static_cast<pid_t>(f.integer("pid", 0, 0, INT32_MAX));
  r.process.start_time = static_cast<uint64_t>(f.integer("start_time", 0, 0, kMost));
  r.siblings = f.parts("siblings", process_from);
  r.program = f.text("program");
  r.pod = f.text("pod");
  r.owner.pid = static_cast<pid_t>(f.integer("owner_pid", 0, 0, INT32_MAX));
  r.owner.start_time = static_cast<uint64_t>(f.integer("owner_start_time", 0, 0, kMost));
  r.ready_after_ms = f.integer("ready_after_ms", 0, 0, kMost);
  r.ended = f.integer("ended", 0, 0, kMost);
  r.used = Nanos(f.integer("used_ns", 0, 0, kMost));
  r.device_fault = f.text("device_fault");
  r.error = f.text("error");
  r.stopped = f.boolean("stopped", false);
  r.node_fault = f.boolean("node_fault", false);
  return f.finish(r);
}

Result<std::string> read_file(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    if (errno == ENOENT) return Error{ErrorKind::kNotFound, path};
    return system_error(path);
  }
  std::string text;
  char part[65536];
  for (;;) {
    const ssize_t n = read(fd.get(), part, sizeof part);
    if (n < 0 && errno != EINTR) return system_error(path);
    if (n == 0) return text;
    if (n > 0) text.append(part, static_cast<size_t>(n));
  }
}

}  // namespace

json siblings_json(const InstanceRecord& r) {
  json all = json::array();
  for (const ProcessIdentity& p : r.siblings)
    all.push_back({{"pid", p.pid}, {"start_time", p.start_time}});
  return all;
}

std::string state_to_json(const NodeState& state) {
  json out = {{"version", kVersion},
              {"boot_id", state.boot_id},
              {"generation", state.generation},
              {"devices", json::array()},
              {"instances", json::array()}};
  for (const LocalDevice& d : state.devices) out["devices"].push_back(kept(d));
  for (const InstanceRecord& r : state.instances) out["instances"].push_back(kept(r));
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<NodeState> state_from_json(std::string_view text) {
  SLUICE_ASSIGN(object, wire::parse_json(text));
  wire::Fields f(object, "node");
  const int64_t version = f.integer("version", 0, 0, INT32_MAX);
  NodeState s;
  if (version < 1 || version > kVersion)
    f.fail("version", std::to_string(version) + " is not from 1 to " + std::to_string(kVersion) +
                          ", those that this sluice can read");
  // Without one of these, running instances would be taken for ended, and their shares given out
  // again.
  for (const char* key : {"boot_id", "devices", "instances"})
    if (f.child(key) == nullptr) f.fail(key, "is missing");
  s.boot_id = f.text("boot_id");
  s.generation = static_cast<uint32_t>(f.integer("generation", 0, 0, UINT32_MAX));
  s.devices = f.parts("devices", device_from);
  s.instances = f.parts("instances", record_from);
  return f.finish(s);
}

Registry::Registry(std::string path, std::string boot_id)
    : path_(std::move(path)), boot_id_(std::move(boot_id)) {}

Result<std::optional<NodeState>> Registry::load() const {
  const Result<std::string> text = read_file(path_);
  if (!text.ok() && text.error().kind == ErrorKind::kNotFound) return std::optional<NodeState>();
  if (!text.ok()) return text.error();
  Result<NodeState> state = state_from_json(*text);
  if (state.ok()) return std::optional(std::move(*state));
  if (const Result<std::string> last_boot = read_file(boot_path());
      last_boot.ok() && *last_boot != boot_id_)
    return std::optional<NodeState>();
  return Error{ErrorKind::kInternal,
               path_ + ": cannot be understood (" + state.error().message +
                   "); it says which instances run and which shares they hold"};
}

Result<void> Registry::save(const NodeState& state) {
  SLUICE_STEP("save: to come");
  SLUICE_TRY(replace_file(path_, state_to_json(state)));
  SLUICE_STEP("save: written");
  if (!boot_noted_) SLUICE_TRY(replace_file(boot_path(), boot_id_, 0600, Flush::kYes));
  boot_noted_ = true;
  return {};
}

}  // namespace sluice::node
