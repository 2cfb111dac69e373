#include "node/enforcer.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/log.h"
#include "base/system_error.h"
#include "node/instance_memory.h"
#include "node/meter_cpu.h"
#include "node/meter_cuda.h"

namespace sluice::node {
namespace {

// A program that has used so much and has not asked for a permit will not: importing PyTorch takes
// a few seconds.
constexpr Nanos kMostBeforePermits = Seconds(3);

// Whether a process stands in the group of that name, in any hierarchy.
bool in_group(pid_t pid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cgroup");
  for (std::string line; std::getline(file, line);)
    if (line.ends_with("/" + name)) return true;
  return false;
}

// For all threads of a process that no group holds; those to come inherit it.
Result<void> set_affinity(pid_t pid, const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  std::error_code gone;  // it may end meanwhile
  std::filesystem::directory_iterator thread("/proc/" + std::to_string(pid) + "/task", gone), end;
  for (; !gone && thread != end; thread.increment(gone)) {
    const pid_t tid = std::atoi(thread->path().filename().c_str());
    if (sched_setaffinity(tid, sizeof set, &set) != 0 && errno != ESRCH)
      return Error{ErrorKind::kInternal,
                   "its cores cannot be set: " + std::string(strerror(errno))};
  }
  return {};
}

// What Sluice starts serves requests, and says itself how they fare; a foreign program runs for its
// throughput, unless its slice says otherwise.
policy::ShareClient share_of(policy::ClientId id, const InstanceRecord& r) {
  const Instance& i = r.instance;
  return {.id = id,
          .sm = i.slice.sm,
          .quota = i.slice.quota,
          .position = i.position,
          .has_slo = !r.foreign || i.slice.slo > Nanos(0),
          .slo = i.slice.slo,
          .tolerance = i.slice.tolerance};
}

}  // namespace

Result<std::unique_ptr<Enforcer>> Enforcer::start(const Clock& clock,
                                                  const std::vector<LocalDevice>& devices,
                                                  const GpuWatch& gpus, Cgroups cgroups,
                                                  const EnforcerSettings& settings) {
  SLUICE_ASSIGN(record, MemoryRecord::open(settings.memory_record, settings.same_boot));
  std::unique_ptr<Enforcer> e(new Enforcer(clock, settings, std::move(cgroups), std::move(record)));
  log::info("{}", e->describe());
  e->cgroups_.remove_abandoned(std::string(kCgroupPrefix));
  for (const LocalDevice& d : devices) {
    const bool is_cpu = d.device.kind == DeviceKind::kCpu;
    const policy::ArbiterConfig config{.window = policy::window_of(settings.arbiter),
                                       .pace = is_cpu ? pace_on(d.device.millicores) : 1000};
    SLUICE_ASSIGN(arbiter, policy::make_arbiter(settings.arbiter, config));
    const DeviceNumber number =
        e->host_->add_device(std::move(arbiter), config, d.device.millicores);
    e->devices_.emplace(
        d.device.id, HostedDevice{number, d, is_cpu ? nullptr : gpus.account(d.device.uuid), {}});
  }
  return e;
}

Result<void> Enforcer::serve() {
  desk_.forget_others();
  SLUICE_ASSIGN(
      server,
      PermitServer::start(
          serving_, clock_,
          [this](const Peer& peer, uint32_t device) { return look_up(peer, device); }, &desk_));
  server_ = std::move(server);
  for (const auto& [id, client] : clients_) SLUICE_TRY(open_socket(id));
  return {};
}

Enforcer::Enforcer(const Clock& clock, const EnforcerSettings& settings, Cgroups cgroups,
                   MemoryRecord record)
    : clock_(clock),
      serving_{.path = settings.permit_socket, .generation = settings.generation},
      permit_sockets_(settings.permit_sockets),
      cgroups_(std::move(cgroups)),
      host_(std::make_unique<ArbiterHost>(clock, HostConfig{.generation = settings.generation})),
      desk_(clock, settings.generation, std::move(record)) {
  if (Result<Cgroup> all = cgroups_.open(""); all.ok())
    if (const auto weighs = all->set_weight(kDevicesWeight); !weighs.ok())
      log::warn("{}", weighs.error().message);
}

// Groups that hold nothing any more go, from the leaves up; the kernel keeps the others.
Enforcer::~Enforcer() {
  remove_empty_groups();
  std::vector<std::string> groups{"released"};
  for (const auto& [id, hosted] : devices_) groups.push_back(id);
  groups.push_back("");  // that of all
  for (const std::string& name : groups)
    if (Result<Cgroup> group = cgroups_.open(name); group.ok()) (void)group->remove();
}

Result<void> Enforcer::limit(const Client& c, const InstanceRecord& r) {
  const LocalDevice& device = devices_.at(r.instance.device).device;
  if (device.device.kind != DeviceKind::kCpu) return {};
  const Slice& slice = r.instance.slice;
  const std::vector<int> cores = cores_of(device, r.instance.position.sm_begin, slice.sm);
  if (!c.cgroup) {
    if (cores.empty() || c.process.pid == 0) return {};
    if (!r.foreign) return set_affinity(c.process.pid, cores);
    for (const pid_t pid : family_of(c.process.pid)) SLUICE_TRY(set_affinity(pid, cores));
    return {};
  }
  Cgroup group = *c.cgroup;
  if (!cores.empty()) SLUICE_TRY(group.set_cores(cores));
  return group.set_quota(backstop_millicores(slice, device.device.millicores, backstop_),
                         backstop_.period);
}

std::string Enforcer::describe() const {
  return cgroups_.describe() +
         (cgroups_.limits_memory()
              ? "; memory of instances limited by cgroup"
              : "; no memory cgroup: instances may not map more than their memory (RLIMIT_DATA)");
}

// A foreign program's memory on a CPU is not limited (Daemon::take_process).
Result<void> Enforcer::limit_memory(const Client& c, const InstanceRecord& r) {
  const Device& device = devices_.at(r.instance.device).device.device;
  if (device.kind != DeviceKind::kCpu || r.foreign) return {};
  const Bytes most = memory_limit(r.instance.slice, device);
  if (c.cgroup && cgroups_.limits_memory()) return Cgroup(*c.cgroup).set_memory(most);
  if (c.process.pid == 0) return {};
  // Root without CAP_SYS_RESOURCE may not: the instance runs, and the log says how.
  if (const auto limited = limit_data(c.process.pid, most); !limited.ok())
    log::warn("{}: its memory is not limited: {}", r.instance.id, limited.error().message);
  return {};
}

std::optional<std::string> Enforcer::killed_by_memory(const InstanceRecord& r) const {
  const auto found = clients_.find(r.instance.id);
  if (found == clients_.end() || !found->second.cgroup || r.foreign) return std::nullopt;
  if (!found->second.cgroup->killed_by_memory_limit()) return std::nullopt;
  return killed_by_limit(r.instance.slice, devices_.at(r.instance.device).device.device);
}

Result<void> Enforcer::admit(const InstanceRecord& r) {
  const Instance& i = r.instance;
  const HostedDevice& hosted = devices_.at(i.device);
  remove_empty_groups();
  Client c{.ref = {hosted.number, ++last_client_},
           .process = r.process,
           .uid = r.uid,
           .owner = r.uid != 0 ? r.uid : uid_of(r.process.pid).value_or(geteuid()),
           .counted_by_kernel = hosted.device.device.kind == DeviceKind::kCpu,
           .foreign = r.foreign};
  if (cgroups_.writable()) {
    SLUICE_ASSIGN(group, cgroups_.open(i.device + "/" + i.id));
    c.cgroup = group;
    SLUICE_TRY(limit(c, r));
  }
  SLUICE_ASSIGN(meter, make_meter(hosted, i.slice.sm, c));
  SLUICE_TRY(host_->admit(hosted.number, share_of(c.ref.client, r), std::move(meter)));
  if (i.slice.memory > 0) {
    const Result<MemoryAccount> memory = desk_.open(i.id, i.slice.memory, hosted.account);
    if (!memory.ok()) {
      host_->remove(c.ref);
      return memory.error();
    }
    c.memory = *memory;
  }
  if (server_ != nullptr)
    if (Result<void> opened = open_socket(i.id); !opened.ok()) {
      host_->remove(c.ref);
      desk_.close(c.memory);
      return opened;
    }
  const std::lock_guard lock(mutex_);
  clients_.insert_or_assign(i.id, std::move(c));
  return {};
}

// In a folder of its own, which can be mounted into a container and stays the same while the slice
// lives, whatever becomes of daemons and their sockets.
Result<void> Enforcer::open_socket(const InstanceId& id) {
  const std::string folder = permit_sockets_ + "/" + id;
  if ((mkdir(folder.c_str(), 0711) != 0 && errno != EEXIST) || chmod(folder.c_str(), 0711) != 0)
    return system_error(folder);
  return server_->open_for(id, folder + "/sock");
}

// On a CPU the kernel counts; on a GPU its account has to confirm what clients say.
Result<std::unique_ptr<Meter>> Enforcer::make_meter(const HostedDevice& hosted, Share sm,
                                                    const Client& c) const {
  const Device& device = hosted.device.device;
  if (device.kind == DeviceKind::kCuda)
    return std::unique_ptr<Meter>(std::make_unique<CudaMeter>(hosted.account, clock_.now()));
  std::unique_ptr<CpuCounter> counter = std::make_unique<ProcessCounter>();
  if (c.cgroup) {
    SLUICE_ASSIGN(counted, CgroupCounter::open(c.cgroup->usage_file()));
    counter = std::move(counted);
  }
  const int millicores = std::max(device.millicores * sm.permille / 1000, 1);
  return std::unique_ptr<Meter>(
      std::make_unique<CpuMeter>(std::move(counter), millicores, clock_.now()));
}

Result<void> Enforcer::place(const InstanceRecord& r, pid_t pid) {
  Client& c = clients_.at(r.instance.id);
  if (pid == r.process.pid) {
    const std::lock_guard lock(mutex_);
    c.process = r.process;
  }
  SLUICE_TRY(limit_memory(c, r));
  // Not under the lock: the kernel may take long, and processes that attach wait for it.
  if (c.cgroup) return c.cgroup->add(pid);
  const LocalDevice& device = devices_.at(r.instance.device).device;
  if (device.cores.empty()) return {};
  return set_affinity(pid, cores_of(device, r.instance.position.sm_begin, r.instance.slice.sm));
}

Result<Attachment> Enforcer::attach(const InstanceRecord& r, int pidfd) {
  return host_->attach(clients_.at(r.instance.id).ref, r.process,
                       Fd(fcntl(pidfd, F_DUPFD_CLOEXEC, 0)));
}

Result<void> Enforcer::resize(const InstanceRecord& r) {
  const Client& c = clients_.at(r.instance.id);
  SLUICE_TRY(host_->resize(c.ref.device, share_of(c.ref.client, r)));
  desk_.set_limit(c.memory, r.instance.slice.memory);
  SLUICE_TRY(limit_memory(c, r));
  return limit(c, r);
}

void Enforcer::release(const InstanceRecord& r) {
  const auto found = clients_.find(r.instance.id);
  if (found == clients_.end()) return;
  if (server_ != nullptr) server_->close_for(r.instance.id);  // who dies while we start
  rmdir((permit_sockets_ + "/" + r.instance.id).c_str());
  Client c = std::move(found->second);
  {
    const std::lock_guard lock(mutex_);
    clients_.erase(found);
  }
  host_->remove(c.ref);
  desk_.close(c.memory);
  if (c.cgroup) empty(std::move(*c.cgroup), r.foreign);
}

void Enforcer::bury(const InstanceRecord& r) {
  if (!devices_.contains(r.instance.device)) return;
  Result<Cgroup> group = cgroups_.open(r.instance.device + "/" + r.instance.id);
  if (group.ok()) empty(std::move(*group), r.foreign);
}

void Enforcer::empty(Cgroup group, bool foreign) {
  Result<Cgroup> outside = cgroups_.open("released");
  constexpr int kMostRounds = 10;  // one that is born meanwhile is found in the next
  for (int round = 0; round < kMostRounds; ++round) {
    if (!foreign) group.signal(SIGKILL);
    for (const pid_t pid : group.processes())
      if (foreign && outside.ok()) (void)outside->add(pid);
  }
  left_.push_back(std::move(group));
  remove_empty_groups();
}

// A group can go only when its last process is gone, which a kill does not wait for.
void Enforcer::remove_empty_groups() {
  std::erase_if(left_, [](Cgroup& group) { return group.remove().ok(); });
}

void Enforcer::charge_ungated() {
  for (auto& [device, hosted] : devices_) {
    if (hosted.account == nullptr) continue;
    const std::map<pid_t, DeviceUse> account = hosted.account->uses();
    if (account.empty()) continue;
    const std::set<pid_t> attached = host_->attached(hosted.number);
    for (const UngatedUse::Use& use : hosted.ungated.take(account, attached, clock_.now())) {
      const std::optional<ProcessIdentity> process = identity_of(use.pid);
      const std::optional<uid_t> uid = uid_of(use.pid);
      if (!process || !uid) continue;
      const std::optional<InstanceId> id =
          slice_of({.process = *process, .uid = *uid, .pidfd = {}, .slice = ""});
      if (!id) continue;
      Client& c = clients_.at(*id);
      if (c.ref.device != hosted.number) continue;
      host_->charge(c.ref, use.busy, use.until);
      if (!std::exchange(c.ungated, true))
        log::warn("{}: process {} uses {} past the hook, without a permit; its slice is charged",
                  *id, use.pid, device);
    }
  }
}

// Whether nothing holds a program without a cgroup. Once it is, it stays so until one of its
// processes attaches: the CPU time of those alive falls whenever one of them ends.
bool Enforcer::is_unheld(const Client& c, int attached) {
  if (attached > 0) return false;
  return c.unheld || (identity_of(c.process.pid) == c.process &&
                      cpu_time_of(family_of(c.process.pid)) > kMostBeforePermits);
}

// What Sluice starts itself has no right to leave its group.
bool Enforcer::poll_strays() {
  bool changed = false;
  const std::map<InstanceId, ClientState> states =
      cgroups_.writable() ? std::map<InstanceId, ClientState>() : this->states();
  for (auto& [id, c] : clients_) {
    if (!c.foreign || !c.counted_by_kernel) continue;
    if (!c.cgroup) {
      const auto state = states.find(id);
      const bool unheld = is_unheld(c, state == states.end() ? 0 : state->second.processes);
      changed |= std::exchange(c.unheld, unheld) != unheld;
      continue;
    }
    std::vector<pid_t> family;
    if (identity_of(c.process.pid) == c.process) family = family_of(c.process.pid);
    for (const auto& [pid, process] : c.strays.outside())
      std::ranges::copy(family_of(pid), std::back_inserter(family));
    const size_t before = c.strays.outside().size();
    const std::vector<ProcessIdentity> left = c.strays.poll(*c.cgroup, family);
    for (const ProcessIdentity& process : left)
      log::warn("{}: process {} has left its cgroup: the kernel does not hold it to its slice", id,
                process.pid);
    changed |= !left.empty() || c.strays.outside().size() != before;
  }
  return changed;
}

std::string Enforcer::fault_of(const InstanceId& id) const {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return "";
  const Client& c = found->second;
  if (!c.strays.outside().empty())
    return "process " + std::to_string(c.strays.outside().begin()->first) +
           " has left its cgroup; nothing holds it";
  if (c.unheld)
    return "nothing holds it: it asks for no permits, and without root it has no cgroup";
  return "";
}

Nanos Enforcer::outside(const InstanceId& id) {
  const auto found = clients_.find(id);
  return found == clients_.end() ? Nanos(0) : found->second.strays.used();
}

std::map<InstanceId, ClientState> Enforcer::states() {
  const std::map<ClientRef, ClientState> hosted = host_->states();
  std::map<InstanceId, ClientState> all;
  for (const auto& [id, client] : clients_)
    if (const auto found = hosted.find(client.ref); found != hosted.end()) all[id] = found->second;
  return all;
}

std::optional<Bytes> Enforcer::memory_held(const InstanceId& id) const {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return std::nullopt;
  const Client& c = found->second;
  if (c.counted_by_kernel || c.memory == 0) return std::nullopt;
  return desk_.look(c.memory).held;
}

void Enforcer::signal(const InstanceId& id, int number) const {
  const auto found = clients_.find(id);
  if (found != clients_.end() && found->second.cgroup) found->second.cgroup->signal(number);
}

std::vector<pid_t> Enforcer::processes(const InstanceId& id) const {
  const auto found = clients_.find(id);
  if (found == clients_.end() || !found->second.cgroup) return {};
  return found->second.cgroup->processes();
}

bool Enforcer::is_under(const Client& c, const Peer& peer) const {
  return c.process == peer.process || (c.uid != 0 && c.uid == peer.uid) ||
         (c.cgroup && in_group(peer.process.pid, c.cgroup->name()));
}

// Whose slice a process is under: its own, that of its uid (no two instances share one), that of
// the group which it was born into; where there are no groups, that of its nearest ancestor. At a
// slice's own socket it is that one, or none, and its owner's processes (and root's) belong to it
// wherever they are. But where the kernel counts what is used they have to be under it all the
// same, or what they use would be nobody's.
std::optional<InstanceId> Enforcer::slice_of(const Peer& peer) const {
  const auto may_be = [&](const InstanceId& id) {
    return peer.slice.empty() || (peer.slice == id && peer.process.pid != 0);
  };
  if (const auto own = clients_.find(peer.slice); own != clients_.end()) {
    const Client& c = own->second;
    if (!c.counted_by_kernel && (peer.uid == c.owner || peer.uid == 0)) return own->first;
  }
  for (const auto& [id, c] : clients_)
    if (may_be(id) && is_under(c, peer)) return id;
  if (!cgroups_.writable())
    for (const ProcessIdentity& ancestor : ancestors_of(peer.process.pid))
      for (const auto& [id, c] : clients_)
        if (may_be(id) && c.process == ancestor) return id;
  return std::nullopt;
}

Result<Placement> Enforcer::look_up(const Peer& peer, uint32_t device) {
  if (device != 0)
    return Error{ErrorKind::kInvalid, "device: a slice here is on one device, number 0"};
  const std::lock_guard lock(mutex_);
  const std::optional<InstanceId> id = slice_of(peer);
  if (!id) return Error{ErrorKind::kNotFound, "the process holds no slice here"};
  const Client& c = clients_.at(*id);
  return Placement{host_.get(), c.ref, c.memory};
}

}  // namespace sluice::node
