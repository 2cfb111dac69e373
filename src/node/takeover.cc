#include "node/takeover.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/lock_file.h"
#include "base/log.h"
#include "base/words.h"
#include "gpu/mps_program.h"
#include "node/machine.h"
#include "node/mps_controls.h"
#include "node/nics.h"
#include "node/program_home.h"
#include "node/survivors.h"
#include "wire/permit_steps.h"

namespace sluice::node {
namespace {

// Other users may pass through to permit.sock and to their own slice's socket, and see nothing on
// the way.
Result<void> make_folders(const DataPaths& paths) {
  const std::pair<std::string, mode_t> folders[] = {
      {paths.data, 0711},      {paths.logs(), 0700},
      {paths.run(), 0711},     {paths.permit_sockets(), 0711},
      {paths.stores(), 0711},  {paths.instances(), 0700},
      {paths.secrets(), 0700}, {paths.permits, 0755}};
  for (const auto& [path, mode] : folders) {
    if (path.empty()) continue;
    std::error_code fault;
    std::filesystem::create_directories(path, fault);
    if (fault) return Error{ErrorKind::kInternal, path + ": " + fault.message()};
    if (chmod(path.c_str(), mode) != 0)
      return Error{ErrorKind::kInternal, path + ": " + std::strerror(errno)};
  }
  return {};
}

// Removes sockets of slices that ended while no daemon ran. The folders of live slices stay,
// because they may be mounted elsewhere.
void remove_old_sockets(const DataPaths& paths, const std::vector<InstanceRecord>& records) {
  std::set<std::string> kept;
  for (const InstanceRecord& r : records)
    if (alive(r)) kept.insert(r.instance.id);
  std::error_code fault;
  std::filesystem::directory_iterator folder(paths.permit_sockets(), fault), end;
  for (; !fault && folder != end; folder.increment(fault))
    if (!kept.contains(folder->path().filename())) {
      std::error_code gone;
      std::filesystem::remove_all(folder->path(), gone);
    }
}

// Returns GPUs as NVML lists them, with the kernel's view of the machine around them.
std::vector<Device> with_nics(std::vector<Device> gpus) {
  if (gpus.empty()) return gpus;
  const NicTopology nics("/sys");
  for (Device& gpu : gpus) gpu.nics = nics.near(gpu.bus);
  return gpus;
}

// Returns the name of the group of this whole platform.
std::string cgroup_of(const DataPaths& paths) {
  return std::string(kCgroupPrefix) + std::to_string(std::hash<std::string>()(paths.data));
}

// Adds the uid of functions' programs under MPS if a server has it that an earlier daemon left.
void add_mps_user(const DaemonSettings& settings, const NodeState& state, std::set<uid_t>& ours) {
  for (const LocalDevice& d : state.devices) {
    const auto control =
        running_control_daemon(mps_place(settings.gpu.mps, d.device, settings.paths));
    if (!control) continue;
    for (const pid_t pid : family_of(control->pid))
      if (const uid_t user = uid_of(pid).value_or(0);
          user == mps_user(settings.first_uid != 0 ? settings.first_uid : block_of(user)))
        ours.insert(user);
  }
}

// As root, claims a block of uids for instances, and logs it.
Result<UidClaim> claim_for(const DaemonSettings& settings, const NodeState& state,
                           const std::vector<InstanceRecord>& died) {
  if (!settings.own_uids) return UidClaim{};
  UidRequest request{.first = settings.first_uid};
  for (const InstanceRecord& r : died) request.ours.insert(r.uid);
  for (const InstanceRecord& r : state.instances)
    if (alive(r)) request.ours.insert(r.uid);
  add_mps_user(settings, state, request.ours);
  request.ours.erase(0);  // the daemon's own
  request.files = owners_of_homes(settings.paths.homes());
  SLUICE_ASSIGN(claim, claim_uids(request));
  if (!claim.passed_over.empty())
    log::warn("instances run as uids from {}: {}", claim.first, claim.passed_over);
  return std::move(claim);
}

// Returns why GPUs are not shared by MPS; empty if they are, by the program that `gpu` then names.
std::string find_mps(GpuSettings& gpu, bool has_pods) {
  if (has_pods) gpu.mps.clear();  // no Pod could reach its server
  if (has_pods) return "instances are Pods, which are no clients of MPS";
  if (gpu.mps.empty()) return "not asked for";
  Result<std::string> program = find_mps_program(gpu.mps);
  gpu.mps = program.ok() ? *program : "";
  return program.ok() ? "" : program.error().message;
}

// Returns the running processes of a record of this boot. A record that names another program's
// process, or the machine's first one, is wrong: that process is left alone.
std::vector<ProcessIdentity> running(const InstanceRecord& r) {
  std::vector<ProcessIdentity> found = first_processes(r);
  std::erase_if(found, [&](const ProcessIdentity& p) {
    if (p.pid <= 1 || identity_of(p.pid) != p) return true;
    const std::string program = program_of(p.pid);  // empty: unknown
    return !program.empty() && !r.program.empty() && program != r.program;
  });
  return found;
}

std::vector<std::string> types_of(const std::vector<LocalDevice>& devices) {
  std::vector<std::string> types;
  for (const LocalDevice& d : devices) types.push_back(type_of(d.device).name);
  return types;
}

}  // namespace

Result<Takeover> take_over(const Clock& clock, DaemonSettings& settings) {
  SLUICE_TRY(make_folders(settings.paths));
  Result<Fd> lock = take_lock(settings.paths.lock());
  if (!lock.ok() && lock.error().kind == ErrorKind::kConflict)
    return Error{ErrorKind::kConflict,
                 settings.paths.data + ": another node daemon runs on this data directory"};
  if (!lock.ok()) return lock.error();
  SLUICE_ASSIGN(boot, boot_id());
  const bool has_pods = settings.pods != nullptr;
  if (has_pods) settings.own_uids = false;
  Cgroups cgroups = has_pods ? Cgroups() : Cgroups::detect(cgroup_of(settings.paths));
  SLUICE_ASSIGN(state, state_to_start_from(Registry(settings.paths.state(), boot), boot,
                                           find_survivors(cgroups, settings.paths.instances())));
  SLUICE_ASSIGN(machine, this_machine());
  SLUICE_ASSIGN(split, split_cpu(machine, settings.cpu));
  if (settings.weights == 0) settings.weights = machine.memory / 2;
  std::unique_ptr<GpuWatch> gpus = GpuWatch::start(settings.gpu.library);
  log::info("{}", gpus->describe());
  const bool wants_mps = !settings.gpu.mps.empty();
  std::string mps_absent = find_mps(settings.gpu, has_pods);
  if (wants_mps && !mps_absent.empty())
    log::warn("GPUs are shared by turns, without MPS: {}", mps_absent);

  const bool same_boot = state.boot_id == boot;
  const std::vector<InstanceRecord> died =
      settle(state.instances, same_boot, has_pods ? Born::kByTheKubelet : Born::kByTheDaemon);
  SLUICE_STEP("open: settled");
  SLUICE_ASSIGN(uids, claim_for(settings, state, died));
  remove_old_sockets(settings.paths, state.instances);
  state.boot_id = boot;
  ++state.generation;
  state.devices =
      devices_now(state, same_boot, split, with_nics(gpus->gpus()), machine.node, settings.gpu);
  for (const DeviceType& type : set_prices(state.devices, settings.prices))
    log::warn("--price: no device here is of type {}", type.name);
  SLUICE_TRY(set_arbiters(state.devices, settings));

  const EnforcerSettings enforcement{
      .permit_socket = settings.paths.permit_socket(),
      .permit_sockets = has_pods ? "" : settings.paths.permit_sockets(),
      .memory_record = settings.paths.memory(),
      .shared_uid = settings.own_uids ? mps_user(uids.first) : 0,
      .same_boot = same_boot,
      .generation = state.generation,
      .pods = has_pods ? std::optional(PodCgroups::detect(settings.pod_cgroups)) : std::nullopt,
      .reserve_millicores = split.reserve_millicores,
      .reserve_cores = split.reserve};
  SLUICE_ASSIGN(enforcer,
                Enforcer::start(clock, state.devices, *gpus, std::move(cgroups), enforcement));
  if (same_boot)
    for (const InstanceRecord& r : died) enforcer->reap(r);
  return Takeover{.lock = std::move(*lock),
                  .uids = std::move(uids),
                  .state = std::move(state),
                  .gpus = std::move(gpus),
                  .enforcer = std::move(enforcer),
                  .mps_absent = std::move(mps_absent),
                  .zygote_cores = split.reserve};
}

std::vector<InstanceRecord> settle(std::vector<InstanceRecord>& records, bool same_boot,
                                   Born born) {
  std::vector<InstanceRecord> died;
  for (InstanceRecord& r : records) {
    if (!alive(r)) continue;
    const std::vector<ProcessIdentity> left =
        same_boot ? running(r) : std::vector<ProcessIdentity>();
    const bool lives = left.size() == first_processes(r).size();
    const bool was_starting = r.instance.state == InstanceState::kStarting;
    if (!r.pod.empty() && r.foreign && same_boot) continue;  // its taker releases it
    if (was_starting && same_boot && born == Born::kByTheKubelet && !r.foreign) {
      r.process = {};
      continue;
    }
    if (lives && !was_starting) continue;
    // An instance that was starting waits for a Go that no daemon will send, or has had it and
    // listens. Its name is free from here on, and the next instance of that name must not find it
    // at its socket.
    for (const ProcessIdentity& process : left) signal_process(process, SIGKILL);
    if (r.socket.starts_with('/')) unlink(r.socket.c_str());
    r.stopped = r.instance.state == InstanceState::kDraining;
    r.instance.state = InstanceState::kGone;
    r.ended = unix_now();
    r.node_fault = true;
    r.error = !same_boot     ? "the machine was restarted"
              : was_starting ? "the node daemon was restarted while it started"
                             : "died while no node daemon ran";
    log::info("{}: gone, {}", r.instance.id, r.error);
    died.push_back(r);
  }
  return died;
}

std::vector<LocalDevice> devices_now(const NodeState& before, bool same_boot, const CpuSplit& split,
                                     const std::vector<Device>& gpus, const std::string& node,
                                     const GpuSettings& gpu_settings) {
  std::vector<LocalDevice> devices;
  std::set<DeviceId> held;
  for (const InstanceRecord& r : before.instances)
    if (alive(r))
      for (const Part& p : r.instance.parts) held.insert(p.device);
  for (const LocalDevice& d : before.devices)
    if (!held.empty() && d.device.kind == DeviceKind::kCpu) devices.push_back(d);
  if (devices.empty())
    devices = split.devices;
  else if (types_of(devices) != types_of(split.devices))
    log::warn(
        "the CPU devices stay {}, as instances run on them; they become {} at a start that finds "
        "none (sluice drain)",
        sluice::listed(types_of(devices)), sluice::listed(types_of(split.devices)));
  const std::vector<LocalDevice> known = same_boot ? before.devices : std::vector<LocalDevice>();
  for (LocalDevice& gpu : merge_gpus(known, gpus, held, node, gpu_settings))
    devices.push_back(std::move(gpu));
  return devices;
}

Result<void> set_arbiters(std::vector<LocalDevice>& devices, const DaemonSettings& settings) {
  const std::string& fixed = settings.arbiter;
  size_t able = 0;
  Result<void> refused;
  for (auto& [d, cores] : devices) {
    const Result<void> runs = policy::check_arbiter(fixed, d.kind);
    d.arbiter = runs.ok() ? fixed : "";
    d.window =
        policy::window_of(runs.ok() ? fixed : policy::arbiter_on(d.kind, settings.default_arbiter));
    able += runs.ok();
    if (!runs.ok()) refused = runs;
  }
  if (fixed.empty() || able == devices.size()) return {};
  if (able == 0) return refused;
  log::info("CPU devices cannot run the arbiter {}: the first instance on each chooses", fixed);
  return {};
}

}  // namespace sluice::node
