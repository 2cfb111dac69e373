#include "node/daemon.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/log.h"
#include "base/readable.h"
#include "model/quantity.h"
#include "node/housekeeping.h"
#include "node/machine.h"
#include "node/program_home.h"
#include "wire/http/endpoint.h"
#include "wire/permit_steps.h"
#include "wire/secret_file.h"

namespace sluice::node {
namespace {

// Returns whether it is the same request, whatever happened since (a resize, a chosen position).
bool same_start(const InstanceRecord& r, const StartRequest& q) {
  return !r.foreign && r.instance.function == q.function && r.instance.revision == q.revision &&
         std::ranges::equal(r.instance.parts, q.parts, {}, &Part::device, &PartRequest::device) &&
         r.instance.batch == q.batch && r.birth == q.birth;
}

// What all programs have. Nothing of the daemon's own except the mark of its platform.
Variables common_variables() {
  Variables all{{"PATH", "/usr/local/bin:/usr/bin:/bin"}};
  if (const Variables own = own_variables(); own.contains("SLUICE_PLATFORM"))
    all["SLUICE_PLATFORM"] = own.at("SLUICE_PLATFORM");
  return all;
}

Bytes peak_memory_of(const InstanceRecord& r) {
  Bytes sum = 0;
  for (const ProcessIdentity& process : first_processes(r)) sum += peak_memory(process.pid);
  return sum;
}

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::open(asio::io_context& io, const Clock& clock,
                                             DaemonSettings settings) {
  SLUICE_ASSIGN(found, take_over(clock, settings));
  std::unique_ptr<Daemon> daemon(new Daemon(io, clock, std::move(settings), std::move(found)));
  SLUICE_TRY(daemon->begin(io));
  return daemon;
}

Daemon::Daemon(asio::io_context& io, const Clock& clock, DaemonSettings settings, Takeover found)
    : settings_(std::move(settings)),
      lock_(std::move(found.lock)),
      uids_lock_(std::move(found.uids.lock)),
      first_uid_(found.uids.first),
      changes_(io),
      records_(settings_.paths.state(), std::move(found.state), changes_),
      enforcer_(std::move(found.enforcer)),
      reservations_(clock, records_, *enforcer_,
                    settings_.own_uids
                        ? std::optional<UidPool>(
                              std::in_place, found.uids.first, kUidsPerBlock - 1,
                              [homes = settings_.paths.homes()] { return owners_of_files(homes); })
                        : std::nullopt,
                    settings_.default_arbiter),
      mps_(io, clock, settings_.gpu.mps, std::move(found.mps_absent), functions_mps_user(),
           settings_.paths, records_.state(), [this] { changes_.notify(); }),
      stores_(io, clock, settings_.gpu, settings_.paths, records_.state().devices,
              [this](const Peer& peer, const DeviceId& gpu) { return owner_on(gpu, peer); }),
      live_(io, clock, records_, reservations_, *enforcer_, mps_, settings_.grace,
            settings_.pods != nullptr ? Born::kByTheKubelet : Born::kByTheDaemon),
      zygote_(io,
              {.path = settings_.runtime,
               .log = settings_.paths.logs() + "/zygote.log",
               .cores = found.zygote_cores,
               .weights = settings_.weights},
              reservations_.uids()),
      forks_(io, zygote_, *enforcer_, reservations_.ledger(), settings_.paths,
             settings_.ready_patience),
      execs_(
          io, clock, [this](const InstanceRecord& r, size_t part) { return variables_of(r, part); },
          settings_.ready_patience),
      python_templates_(io,
                        {.script = settings_.libraries + "/python/sluice_template.py",
                         .cores = std::move(found.zygote_cores)},
                        reservations_.uids()),
      pythons_(
          io, clock, [this](const InstanceRecord& r, size_t part) { return variables_of(r, part); },
          [this](const InstanceRecord& r, size_t part) { return template_variables(r, part); },
          settings_.ready_patience, python_templates_),
      pods_(settings_.pods != nullptr
                ? std::optional<PodLauncher>(std::in_place, io, clock, *settings_.pods, records_,
                                             *enforcer_, settings_.ready_patience)
                : std::nullopt),
      births_(io, clock, records_, reservations_, *enforcer_, live_, forks_, execs_, pythons_,
              pods_ ? &*pods_ : nullptr),
      faults_(io, records_, reservations_, live_, settings_.replaced_within, settings_.grace),
      gpus_(std::move(found.gpus)) {
  if (settings_.pods != nullptr) pod_changes_.emplace(*settings_.pods, records_, live_);
}

// Live instances are known before the first process may ask for a permit.
Result<void> Daemon::begin(asio::io_context& io) {
  if (const Result<void> adopted = live_.adopt(); !adopted.ok())
    return within(settings_.paths.state(), adopted.error());
  SLUICE_STEP("open: adopted");
  SLUICE_TRY(enforcer_->serve());
  SLUICE_STEP("open: serves");
  SLUICE_TRY(records_.save());
  SLUICE_STEP("open: saved");
  SLUICE_TRY(stores_.start());
  if (pods_)
    begin_births_anew();
  else if (settings_.runtime.empty())
    log::warn("no model server: functions with a model cannot start here");
  else
    SLUICE_TRY(zygote_.start());
  SLUICE_STEP("open: has a zygote");
  faults_.listen_to(*gpus_);
  start_housekeeping(io, *enforcer_, records_, changes_, settings_.paths.logs());
  return {};
}

Result<const InstanceRecord*> Daemon::start(const StartRequest& q) {
  SLUICE_TRY(check_id(q.id, settings_.paths));
  if (const InstanceRecord* known = find(q.id)) {
    if (same_start(*known, q)) return known;
    return Error{ErrorKind::kConflict, "id: '" + q.id + "' is another instance"};
  }
  SLUICE_TRY(pods_ ? can_be_pod(q) : can_be_born(q));
  const std::optional<ProcessIdentity> owner = identity_of(q.owner);
  if (q.owner != 0 && !owner)
    return Error{ErrorKind::kInvalid, "owner: " + std::to_string(q.owner) + " is no process here"};
  InstanceRecord r;
  r.instance = {.id = q.id,
                .function = q.function,
                .revision = q.revision,
                .batch = q.batch,
                .arbiter = q.arbiter};
  r.birth = q.birth;
  SLUICE_ASSIGN(address, address_for(q));
  r.socket = address;
  if (!pods_) r.log = q.log.empty() ? settings_.paths.log_of(q.id) : q.log;
  r.owner = owner.value_or(ProcessIdentity{});
  if (shares_mps_user(q)) r.uid = functions_mps_user();
  SLUICE_TRY(reservations_.enter(std::move(r), q.parts));
  mps_.serve(*find(q.id));
  records_.forget_old();
  births_.begin(q.id);
  if (owner) live_.stop_after(q.id, *owner);
  return find(q.id);
}

// Checks that a program can be on these devices; the ledger refuses those that do not exist.
// `user`: the program's; none: a uid of its own.
Result<void> Daemon::can_be_on(const std::vector<PartRequest>& parts,
                               std::optional<uid_t> user) const {
  const Device *cpu = nullptr, *gpu = nullptr;
  for (const PartRequest& p : parts)
    if (const Device* d = device(p.device)) (d->kind == DeviceKind::kCuda ? gpu : cpu) = d;
  if (gpu == nullptr) return {};
  if (cpu != nullptr)
    return Error{ErrorKind::kInvalid, "parts: " + gpu->id + " is a GPU and " + cpu->id +
                                          " is none; the parts of a program are of one kind"};
  if (parts.size() == 1) {
    SLUICE_TRY(mps_.pipes_for(gpu->id, parts.front().slice, user));
    return {};
  }
  for (const PartRequest& p : parts)
    if (p.slice.sm != kWhole)
      return Error{ErrorKind::kInvalid,
                   "slice.sm: " + format_share(p.slice.sm) + " of " + p.device +
                       ": MPS confines programs on one GPU; one on several has 100% of each"};
  return {};
}

Result<void> Daemon::can_be_born(const StartRequest& q) const {
  if (const auto* program = std::get_if<ExecOfProgram>(&q.birth)) {
    const std::string& path = program->command[0];
    if (access(path.c_str(), X_OK) != 0)
      return Error{ErrorKind::kInvalid, "program.command: " + path + ": " + std::strerror(errno)};
    if (settings_.own_uids && !runnable_by_all(path))
      return Error{ErrorKind::kInvalid,
                   "program.command: " + path + ": cannot be run by the users of instances (uids " +
                       std::to_string(first_uid_) +
                       " and up); put it where all may run it, or open it and the folders above "
                       "it (chmod o+x)"};
    const Device* first = device(q.parts.front().device);
    if (!program->imports.empty() && q.parts.size() > 1 && first != nullptr &&
        first->kind == DeviceKind::kCpu)
      return Error{ErrorKind::kInvalid,
                   "parts: a program with imports is on one CPU device: its processes would have "
                   "templates, and uids, of their own"};
    if (settings_.own_uids && !shares_mps_user(q)) return can_be_on(q.parts, std::nullopt);
    return can_be_on(q.parts, functions_mps_user());
  }
  if (settings_.runtime.empty())
    return Error{ErrorKind::kInvalid,
                 "model: this node has no model server (sluice-runtime), and runs programs alone"};
  if (q.parts.size() > 1)
    return Error{ErrorKind::kInvalid,
                 "parts: the model server computes on one device; several parts need a program"};
  const Device* d = device(q.parts.front().device);
  if (d != nullptr && d->kind == DeviceKind::kCuda)
    return Error{ErrorKind::kInvalid, "device: " + d->id +
                                          " is a GPU, and the model server computes on CPUs; "
                                          "`sluice run` puts a program of your own on it"};
  const std::string& path = std::get<ForkOfTemplate>(q.birth).model.path;
  if (access(path.c_str(), R_OK) != 0)
    return Error{ErrorKind::kInvalid, "model.path: " + path + ": " + std::strerror(errno)};
  return {};
}

// No two live instances have the same address. A Pod has its own, once it runs.
Result<std::string> Daemon::address_for(const StartRequest& q) const {
  if (pods_) return std::string();
  const auto* program = std::get_if<ExecOfProgram>(&q.birth);
  if (program == nullptr || !program->port) return settings_.paths.socket_of(q.id);
  std::map<int, InstanceId> taken;
  for (const InstanceRecord& r : records_.state().instances)
    if (alive(r) && !r.foreign)
      if (const auto at = wire::parse_endpoint(r.socket); at.ok() && at->path.empty())
        taken[at->port] = r.instance.id;
  int port = *program->port;
  if (const auto other = taken.find(port); other != taken.end())
    return Error{ErrorKind::kConflict, "program.port: " + std::to_string(port) +
                                           " is the port of the instance " + other->second};
  if (port == 0) {
    SLUICE_ASSIGN(free, free_port([&](int p) { return taken.contains(p); }));
    port = free;
  }
  return "127.0.0.1:" + std::to_string(port);
}

Result<const InstanceRecord*> Daemon::take_process(const ProcessRequest& q) {
  SLUICE_TRY(check_id(q.id, settings_.paths));
  const std::optional<ProcessIdentity> process = identity_of(q.pid);
  if (!process || q.pid == getpid() || q.pid == 1)
    return Error{ErrorKind::kInvalid, "pid: " + std::to_string(q.pid) + " is no process here"};
  // The id of a program that has ended is free.
  const InstanceRecord* known = find(q.id);
  if (known != nullptr && known->foreign && alive(*known) && known->process == *process)
    return known;
  if (known != nullptr && (alive(*known) || !known->foreign))
    return Error{ErrorKind::kConflict,
                 "id: '" + q.id + "' is " +
                     (known->foreign ? "taken by a program that runs (pid " +
                                           std::to_string(known->process.pid) + ")"
                                     : "that of a function's instance")};
  for (const InstanceRecord& r : records_.state().instances)
    if (alive(r) && std::ranges::count(first_processes(r), *process) > 0)
      return Error{ErrorKind::kConflict,
                   "pid: " + std::to_string(q.pid) + " is under the slice " + r.instance.id};
  SLUICE_TRY(can_be_held(q));
  SLUICE_ASSIGN(pidfd, open_process(*process));
  if (known != nullptr) SLUICE_TRY(records_.remove(q.id));
  InstanceRecord r;
  r.instance = {.id = q.id,
                .function = q.function.name.empty() ? FunctionName{.name = q.id} : q.function,
                .state = InstanceState::kReady};
  r.foreign = true;
  r.process = *process;
  SLUICE_TRY(reservations_.enter(r, q.parts));
  mps_.serve(*find(q.id));
  for (const pid_t pid : family_of(q.pid)) {
    const Result<void> placed = enforcer_->place(*find(q.id), pid);
    if (!placed.ok() && pid == q.pid) log::warn("{}: {}", q.id, placed.error().message);
  }
  SLUICE_STEP("take: placed");
  std::vector<Tie> tie(1);
  tie[0].pidfd = std::move(pidfd);
  live_.follow(q.id, std::move(tie));
  for (const PartRequest& p : q.parts)
    log::info("{}: process {} is under a slice of {} of {}", q.id, q.pid,
              format_share(p.slice.quota.request), p.device);
  return find(q.id);
}

// A process of another's is in one CPU group, and its memory there is not held to a limit.
Result<void> Daemon::can_be_held(const ProcessRequest& q) const {
  const Device* d = device(q.parts.front().device);
  if (d != nullptr && d->kind == DeviceKind::kCpu) {
    if (q.parts.size() > 1)
      return Error{ErrorKind::kInvalid,
                   "parts: one process is on one CPU device; several devices are GPUs"};
    if (q.parts.front().slice.memory > 0)
      return Error{ErrorKind::kInvalid, "slice.memory: " + d->id +
                                            " is no GPU: a program's memory there is not held to a "
                                            "limit; 0 is allowed"};
  }
  return can_be_on(q.parts, uid_of(q.pid));
}

// The user of functions' programs under MPS. A server has clients of one user only, so as root they
// share a uid of the platform's.
uid_t Daemon::functions_mps_user() const {
  return settings_.own_uids ? mps_user(first_uid_) : geteuid();
}

// A training job's workers are not among them: their folder is closed to others.
bool Daemon::shares_mps_user(const StartRequest& q) const {
  const auto* program = std::get_if<ExecOfProgram>(&q.birth);
  return settings_.own_uids && program != nullptr && program->home.empty() && q.parts.size() == 1 &&
         mps_.has(q.parts.front().device);
}

ProgramEnvironment Daemon::environment(const InstanceRecord& r, size_t part) const {
  const auto& [id, slice, position] = r.instance.parts.at(part);
  const bool on_gpus = device(id)->kind == DeviceKind::kCuda;
  std::vector<Device> sees;
  for (const Part& p : r.instance.parts)
    if (on_gpus || p.device == id) sees.push_back(*device(p.device));
  DeviceServices services{.mps_pipes = {}, .model_store = stores_.socket_of(id)};
  if (sees.size() == 1)
    services.mps_pipes = mps_.pipes_for(id, slice, mps_.user_of(r)).value_or({});
  return environment_on(sees, slice,
                        std::filesystem::absolute(settings_.paths.permit_socket_of(r.instance.id)),
                        services);
}

// A secret's value is in the result alone: records have its name.
Result<Variables> Daemon::variables_of(const InstanceRecord& r, size_t part) const {
  Variables all = common_variables();
  all["PYTHONUNBUFFERED"] = "1";  // a line is in the log when it is written
  all["SLUICE_INSTANCE"] = r.instance.id;
  // OpenMP counts the machine's cores; threads that the slice has no cores for would wait for each
  // other.
  const Part& its = r.instance.parts.at(part);
  if (const Device* on = device(its.device); on->kind == DeviceKind::kCpu)
    all["OMP_NUM_THREADS"] = std::to_string(threads_of(*on, its.slice.sm));
  const auto& birth = std::get<ExecOfProgram>(r.birth);
  for (const auto& [name, value] : birth.environment) all.insert_or_assign(name, value);
  for (const auto& [name, file] : birth.secrets) {
    auto value = wire::read_secret(settings_.paths.secrets(), file);
    if (!value.ok()) return within("the variable " + name, value.error());
    all.insert_or_assign(name, std::move(*value));
  }
  all["SLUICE_PART"] = std::to_string(part);
  all["SLUICE_PARTS"] = std::to_string(r.instance.parts.size());
  return with_environment(std::move(all), environment(r, part), settings_.libraries);
}

// A template of instances such as this one: it has their libraries, and nothing of the function's.
Result<Variables> Daemon::template_variables(const InstanceRecord& r, size_t part) const {
  ProgramEnvironment libraries = environment(r, part);
  libraries.variables.clear();
  return with_environment(common_variables(), libraries, settings_.libraries);
}

// The owner is the function of the process's slice on the store's GPU.
Result<std::string> Daemon::owner_on(const DeviceId& gpu, const Peer& peer) const {
  const std::optional<Enforcer::Holder> holder = enforcer_->slice_of(peer);
  const InstanceRecord* r = holder ? find(holder->id) : nullptr;
  if (r == nullptr || part_on(r->instance.parts, gpu) == nullptr)
    return Error{ErrorKind::kNotFound,
                 "process " + std::to_string(peer.process.pid) + " has no slice of it"};
  return to_string(r->instance.function);
}

Result<const InstanceRecord*> Daemon::resize(const InstanceId& id, std::vector<PartRequest> parts) {
  const InstanceRecord* r = find(id);
  const Parts held = r != nullptr ? r->instance.parts : Parts(1);
  const Share before = held.front().slice.sm;
  for (size_t k = 0; k < std::min(parts.size(), held.size()); ++k)
    if (parts[k].device.empty()) parts[k].device = held[k].device;
  SLUICE_ASSIGN(resized, reservations_.resize(id, parts));
  if (resized->instance.slice().sm != before)
    live_.tell_threads(id, forks_.threads_of(resized->instance));
  return resized;
}

DaemonView Daemon::view() const {
  DaemonView v{.boot_id = records_.state().boot_id,
               .generation = records_.state().generation,
               .version = changes_.version(),
               .backstop = enforcer_->has_backstop(),
               .enforcement = enforcer_->describe(),
               .devices = reservations_.ledger().devices()};
  if (!settings_.own_uids && settings_.pods == nullptr)
    v.enforcement += "; instances share this user's uid";
  const std::map<std::string, GpuLoad> loads = gpus_->loads();
  for (Device& d : v.devices) {
    if (const auto load = loads.find(d.uuid); load != loads.end()) v.loads[d.id] = load->second;
    if (d.kind != DeviceKind::kCuda) continue;
    d.mps_status = mps_.describe(d.id);
    if (std::string why = mps_.why_not(d.id, functions_mps_user()); !why.empty())
      v.undivided[d.id] = std::move(why);
  }
  std::map<InstanceId, ClientState> states = enforcer_->states();
  for (const InstanceRecord& r : records_.state().instances) {
    const ClientState state = alive(r) ? states[r.instance.id] : ClientState{};
    v.instances.push_back({r, alive(r) ? state.used : r.used, state.ungated,
                           alive(r) ? peak_memory_of(r) : 0, enforcer_->memory_held(r.instance.id),
                           enforcer_->fault_of(r.instance.id), enforcer_->outside(r.instance.id)});
  }
  return v;
}

}  // namespace sluice::node
