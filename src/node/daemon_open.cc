// How a node daemon begins: what it finds of the one before it, and what the machine has by now.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/lock_file.h"
#include "base/log.h"
#include "node/daemon.h"
#include "node/machine.h"
#include "node/nics.h"
#include "node/survivors.h"
#include "wire/permit_steps.h"

namespace sluice::node {
namespace {

// Others may pass through to permit.sock and to their own slice's, and see nothing on the way.
Result<void> make_folders(const DataPaths& paths) {
  const std::pair<std::string, mode_t> folders[] = {
      {paths.data, 0711},     {paths.logs(), 0700},
      {paths.run(), 0711},    {paths.permit_sockets(), 0711},
      {paths.stores(), 0711}, {paths.instances(), 0700}};
  for (const auto& [path, mode] : folders) {
    std::error_code fault;
    std::filesystem::create_directories(path, fault);
    if (fault) return Error{ErrorKind::kInternal, path + ": " + fault.message()};
    if (chmod(path.c_str(), mode) != 0)
      return Error{ErrorKind::kInternal, path + ": " + std::strerror(errno)};
  }
  return {};
}

// Sockets of slices that ended while no daemon looked. The folders of those that live stay as they
// are, for they may be mounted elsewhere.
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

// The machine's, as far as what lives holds no part of what they were.
std::vector<LocalDevice> devices_now(const NodeState& before, bool same_boot, const CpuSplit& split,
                                     const std::vector<Device>& gpus, const std::string& node,
                                     const GpuSettings& gpu_settings) {
  std::vector<LocalDevice> devices;
  std::set<DeviceId> held;
  for (const InstanceRecord& r : before.instances)
    if (alive(r)) held.insert(r.instance.device);
  for (const LocalDevice& d : before.devices)
    if (!held.empty() && d.device.kind == DeviceKind::kCpu) devices.push_back(d);
  if (devices.empty())
    devices = split.devices;
  else if (devices.size() != split.devices.size())
    log::warn("CPU devices stay {} while instances live", devices.size());
  const std::vector<LocalDevice> known = same_boot ? before.devices : std::vector<LocalDevice>();
  for (LocalDevice& gpu : merge_gpus(known, gpus, held, node, gpu_settings))
    devices.push_back(std::move(gpu));
  return devices;
}

// As NVML tells them, with what the kernel shows of the machine around them.
std::vector<Device> with_nics(std::vector<Device> gpus) {
  if (gpus.empty()) return gpus;
  const NicTopology nics("/sys");
  for (Device& gpu : gpus) gpu.nics = nics.near(gpu.bus);
  return gpus;
}

// The group that holds all of this platform's.
std::string cgroup_of(const DataPaths& paths) {
  return std::string(kCgroupPrefix) + std::to_string(std::hash<std::string>()(paths.data));
}

// As root, a block of uids for instances, and what the log says of it.
Result<UidClaim> claim_for(const DaemonSettings& settings, const NodeState& state,
                           const std::vector<InstanceRecord>& died) {
  if (!settings.own_uids) return UidClaim{};
  UidRequest request{.first = settings.first_uid};
  for (const InstanceRecord& r : died) request.ours.insert(r.uid);
  for (const InstanceRecord& r : state.instances)
    if (alive(r)) request.ours.insert(r.uid);
  request.ours.erase(0);  // the daemon's own
  SLUICE_ASSIGN(claim, claim_uids(request));
  if (!claim.passed_over.empty())
    log::warn("instances run as uids from {}: {}", claim.first, claim.passed_over);
  return std::move(claim);
}

// Why GPUs are not shared by MPS; empty: they are, by the program that `gpu` names then.
std::string find_mps(GpuSettings& gpu) {
  if (gpu.mps.empty()) return "not asked for";
  Result<std::string> program = find_mps_program(gpu.mps);
  gpu.mps = program.ok() ? *program : "";
  return program.ok() ? "" : program.error().message;
}

// Whether a record of this boot is of a process that runs. A record that names another program's
// process, or the machine's first one, is wrong: that process is left alone.
bool still_runs(const InstanceRecord& r) {
  if (r.process.pid <= 1 || identity_of(r.process.pid) != r.process) return false;
  const std::string program = program_of(r.process.pid);
  return program.empty() || r.program.empty() || program == r.program;  // empty: not to be known
}

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::open(asio::io_context& io, const Clock& clock,
                                             DaemonSettings settings) {
  SLUICE_TRY(make_folders(settings.paths));
  Result<Fd> lock = take_lock(settings.paths.lock());
  if (!lock.ok() && lock.error().kind == ErrorKind::kConflict)
    return Error{ErrorKind::kConflict,
                 settings.paths.data + ": another node daemon runs on this data directory"};
  if (!lock.ok()) return lock.error();
  SLUICE_ASSIGN(boot, boot_id());
  Cgroups cgroups = Cgroups::detect(cgroup_of(settings.paths));
  SLUICE_ASSIGN(state, state_to_start_from(Registry(settings.paths.state(), boot), boot,
                                           find_survivors(cgroups, settings.paths.instances())));
  SLUICE_ASSIGN(machine, this_machine());
  SLUICE_ASSIGN(split, split_cpu(machine, settings.cpu));
  if (settings.weights == 0) settings.weights = machine.memory / 2;
  std::unique_ptr<GpuWatch> gpus = GpuWatch::start(settings.gpu.library);
  log::info("{}", gpus->describe());
  const bool wants_mps = !settings.gpu.mps.empty();
  std::string mps_absent = find_mps(settings.gpu);
  if (wants_mps && !mps_absent.empty())
    log::warn("GPUs are shared by turns, without MPS: {}", mps_absent);

  const bool same_boot = state.boot_id == boot;
  const std::vector<InstanceRecord> died = settle(state.instances, same_boot);
  SLUICE_STEP("open: settled");
  SLUICE_ASSIGN(uids, claim_for(settings, state, died));
  remove_old_sockets(settings.paths, state.instances);
  state.boot_id = boot;
  ++state.generation;
  state.devices =
      devices_now(state, same_boot, split, with_nics(gpus->gpus()), machine.node, settings.gpu);

  const EnforcerSettings enforcement{.arbiter = settings.arbiter,
                                     .permit_socket = settings.paths.permit_socket(),
                                     .permit_sockets = settings.paths.permit_sockets(),
                                     .memory_record = settings.paths.memory(),
                                     .same_boot = same_boot,
                                     .generation = state.generation};
  SLUICE_ASSIGN(enforcer,
                Enforcer::start(clock, state.devices, *gpus, std::move(cgroups), enforcement));
  if (same_boot)
    for (const InstanceRecord& r : died) enforcer->bury(r);
  std::unique_ptr<Daemon> daemon(new Daemon(io, clock, std::move(settings), std::move(*lock),
                                            std::move(uids), std::move(state), std::move(enforcer),
                                            std::move(gpus), std::move(mps_absent), split.reserve));
  SLUICE_TRY(daemon->adopt());
  SLUICE_STEP("open: adopted");
  SLUICE_TRY(daemon->enforcer_->serve());
  SLUICE_STEP("open: serves");
  SLUICE_TRY(daemon->save());
  SLUICE_STEP("open: saved");
  SLUICE_TRY(daemon->stores_.start());
  SLUICE_TRY(daemon->zygote_.start());
  SLUICE_STEP("open: has a zygote");
  daemon->listen_for_faults();
  asio::co_spawn(io, daemon->watch_strays(), asio::detached);
  asio::co_spawn(io, daemon->keep_logs_small(), asio::detached);
  if (!daemon->gpus_->gpus().empty()) asio::co_spawn(io, daemon->charge_ungated(), asio::detached);
  return daemon;
}

Daemon::Daemon(asio::io_context& io, const Clock& clock, DaemonSettings settings, Fd lock,
               UidClaim uids, NodeState state, std::unique_ptr<Enforcer> enforcer,
               std::unique_ptr<GpuWatch> gpus, std::string mps_absent,
               std::vector<int> zygote_cores)
    : io_(io),
      clock_(clock),
      settings_(std::move(settings)),
      lock_(std::move(lock)),
      uids_lock_(std::move(uids.lock)),
      registry_(settings_.paths.state(), state.boot_id),
      state_(std::move(state)),
      ledger_([this] {
        std::vector<Device> devices;
        for (const LocalDevice& d : state_.devices) devices.push_back(d.device);
        return devices;
      }()),
      uids_(uids.first, kUidsPerBlock),
      enforcer_(std::move(enforcer)),
      zygote_(io, {.path = settings_.runtime,
                   .log = settings_.paths.logs() + "/zygote.log",
                   .cores = std::move(zygote_cores),
                   .weights = settings_.weights}),
      launcher_(io, zygote_, settings_.paths),
      mps_(io, clock, settings_.gpu.mps, std::move(mps_absent), settings_.paths, state_.devices,
           [this] { tell_change(); }),
      stores_(io, clock, settings_.gpu, settings_.paths, state_.devices,
              [this](const Peer& peer, const DeviceId& gpu) { return owner_on(gpu, peer); }),
      gpus_(std::move(gpus)) {}

// Finds out who died while no daemon looked, and returns them.
std::vector<InstanceRecord> Daemon::settle(std::vector<InstanceRecord>& records, bool same_boot) {
  std::vector<InstanceRecord> died;
  for (InstanceRecord& r : records) {
    if (!alive(r)) continue;
    const bool lives = same_boot && still_runs(r);
    const bool was_starting = r.instance.state == InstanceState::kStarting;
    if (lives && !was_starting) continue;
    // One that was starting waits for a Go that nobody will send, or has had it and listens. Its
    // name is free from here on: who has it next must not find a dying one at its socket.
    if (lives) signal_process(r.process, SIGKILL);
    if (!r.socket.empty()) unlink(r.socket.c_str());
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

Result<void> Daemon::adopt() {
  for (InstanceRecord& r : state_.instances) {
    if (!alive(r)) continue;
    const Instance& i = r.instance;
    // Its device may be drained by now; what it holds is still its own.
    const Device* device = ledger_.find(i.device);
    const bool drained = device != nullptr && device->drained;
    const std::string fault = drained ? device->fault : "";
    if (drained) (void)ledger_.set_drained(i.device, false);
    const Result<Promise> kept = ledger_.reserve(i.id, i.device, i.slice, i.position);
    if (drained) (void)ledger_.set_drained(i.device, true, fault);
    if (!kept.ok()) return within(settings_.paths.state() + ": " + i.id, kept.error());
    SLUICE_STEP("adopt: reserved");
    if (r.uid != 0) uids_.keep(r.uid);
    SLUICE_TRY(enforcer_->admit(r));
    SLUICE_STEP("adopt: admitted");
    if (const Result<void> placed = enforcer_->place(r, r.process.pid); !placed.ok())
      log::warn("{}: {}", i.id, placed.error().message);
    Result<Fd> pidfd = open_process(r.process);
    if (!pidfd.ok()) {
      end(i.id, "died while the node daemon started");
      continue;
    }
    live_[i.id].pidfd = std::move(*pidfd);
    asio::co_spawn(io_, watch(i.id), asio::detached);
    if (r.owner.pid != 0) asio::co_spawn(io_, stop_with_owner(i.id, r.owner), asio::detached);
    if (i.state == InstanceState::kDraining)
      asio::co_spawn(io_, kill_later(i.id, r.process, settings_.grace), asio::detached);
    log::info("adopted {}: pid {}, {} ‰ of {}", i.id, r.process.pid, i.slice.quota.request.permille,
              i.device);
  }
  return {};
}

}  // namespace sluice::node
