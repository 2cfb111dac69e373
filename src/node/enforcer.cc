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
#include <iterator>

#include "base/log.h"
#include "base/system_error.h"
#include "enforce/instance_memory.h"
#include "enforce/meter_cpu.h"
#include "gpu/meter_cuda.h"
#include "node/gpu_devices.h"

namespace sluice::node {
namespace {

// A program that has used so much without asking for a permit never will: importing PyTorch takes a
// few seconds.
constexpr Nanos kMostBeforePermits = Seconds(3);

// For all threads of a process that no group holds; later ones inherit it.
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

policy::ArbiterConfig config_of(std::string_view arbiter, const Device& device) {
  const bool is_cpu = device.kind == DeviceKind::kCpu;
  return {.window = policy::window_of(arbiter),
          .pace = is_cpu ? pace_on(device.millicores) : 1000,
          .side_by_side = goes_side_by_side(device)};
}

// Training workers and foreign programs run for their throughput.
bool serves(const InstanceRecord& r) {
  const auto* program = std::get_if<ExecOfProgram>(&r.birth);
  return !r.foreign && (program == nullptr || program->serves);
}

// What serves requests reports their due times itself. Of others a slice may say that their
// iterations have an objective.
policy::ShareClient share_of(policy::ClientId id, const InstanceRecord& r, const Part& part) {
  return {.id = id,
          .sm = part.slice.sm,
          .quota = part.slice.quota,
          .position = part.position,
          .has_slo = serves(r) || part.slice.slo > Nanos(0),
          .slo = part.slice.slo,
          .tolerance = part.slice.tolerance};
}

// Returns the first process of a part; pid 0 if it is not born yet, or serves on the first part's
// GPU as well.
ProcessIdentity process_of(const InstanceRecord& r, size_t part) {
  const std::vector<ProcessIdentity> all = first_processes(r);
  return part < all.size() ? all[part] : ProcessIdentity{};
}

// Returns the user of a foreign program; other processes without a uid of their own are let in one
// by one, as the daemon's.
uid_t owner_of(const InstanceRecord& r, const ProcessIdentity& process) {
  return r.foreign ? uid_of(process.pid).value_or(geteuid()) : geteuid();
}

// The name under which the memory of a part is recorded.
std::string memory_name(const InstanceId& id, size_t part) {
  return part == 0 ? id : id + "/" + std::to_string(part);
}

void add(ClientState& sum, const ClientState& part) {
  sum.used += part.used;
  sum.ungated += part.ungated;
  sum.granted |= part.granted;
  sum.wanting |= part.wanting;
  sum.processes += part.processes;
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
    // Until its first instance chooses.
    const std::string name(policy::default_arbiter(d.device.kind));
    const policy::ArbiterConfig config = config_of(name, d.device);
    SLUICE_ASSIGN(arbiter, policy::make_arbiter(name, config));
    const DeviceNumber number =
        e->host_->add_device(std::move(arbiter), config, d.device.millicores);
    e->devices_.emplace(
        d.device.id, HostedDevice{number, d, name, is_cpu ? nullptr : gpus.account(d.device.uuid)});
  }
  return e;
}

Result<void> Enforcer::serve() {
  broker_.forget_others();
  SLUICE_ASSIGN(
      server,
      PermitServer::start(
          serving_, clock_,
          [this](const Peer& peer, uint32_t device) { return look_up(peer, device); }, &broker_));
  server_ = std::move(server);
  for (const auto& [id, clients] : clients_) SLUICE_TRY(open_socket(id));
  return {};
}

Enforcer::Enforcer(const Clock& clock, const EnforcerSettings& settings, Cgroups cgroups,
                   MemoryRecord record)
    : clock_(clock),
      serving_{.path = settings.permit_socket, .generation = settings.generation},
      permit_sockets_(settings.permit_sockets),
      shared_uid_(settings.shared_uid),
      cgroups_(std::move(cgroups)),
      pods_(settings.pods),
      reserve_millicores_(settings.reserve_millicores),
      reserve_cores_(settings.reserve_cores),
      host_(std::make_unique<ArbiterHost>(clock, HostConfig{.generation = settings.generation})),
      broker_(clock, settings.generation, std::move(record)) {
  if (Result<Cgroup> all = cgroups_.open(""); all.ok())
    if (const auto weighs = all->set_weight(kDevicesWeight); !weighs.ok())
      log::warn("{}", weighs.error().message);
}

// Removes empty groups, the leaves first; the kernel keeps the others.
Enforcer::~Enforcer() {
  remove_empty_groups();
  std::vector<std::string> groups{"released"};
  for (const auto& [id, hosted] : devices_) groups.push_back(id);
  groups.push_back("");  // the root of all groups
  for (const std::string& name : groups)
    if (Result<Cgroup> group = cgroups_.open(name); group.ok()) (void)group->remove();
}

Result<void> Enforcer::limit(Client& c, const Part& part) {
  const LocalDevice& device = devices_.at(part.device).device;
  if (device.device.kind != DeviceKind::kCpu) return {};
  const Slice& slice = part.slice;
  std::vector<int> cores = cores_of(device, part.position.sm_begin, slice.sm);
  if (c.starting && !cores.empty() && !reserve_cores_.empty()) cores = reserve_cores_;
  SliceGroup* group = c.group();
  if (group == nullptr) {
    if (cores.empty() || c.process.pid == 0) return {};
    if (!c.foreign) return set_affinity(c.process.pid, cores);
    for (const pid_t pid : family_of(c.process.pid)) SLUICE_TRY(set_affinity(pid, cores));
    return {};
  }
  if (!cores.empty()) SLUICE_TRY(group->set_cores(cores));
  double most = backstop_millicores(slice, device.device.millicores, backstop_);
  if (c.starting) most = std::max<double>(most, reserve_millicores_);
  const auto quota = c.quota.ask(most, clock_.now());
  return quota ? group->set_quota(*quota, backstop_.period) : Result<void>();
}

void Enforcer::poll_quotas() {
  for (auto& [id, clients] : clients_)
    for (Client& c : clients)
      if (const auto quota = c.group() ? c.quota.poll(clock_.now()) : std::nullopt)
        if (const auto held = c.group()->set_quota(*quota, backstop_.period); !held.ok())
          log::warn("{}: {}", id, held.error().message);
  hold_pods();
}

std::string Enforcer::describe() const {
  if (pods_) return pods_->describe() + "; memory of instances limited by their Pods";
  return cgroups_.describe() +
         (cgroups_.limits_memory()
              ? "; memory of instances limited by cgroup"
              : "; no memory cgroup: instances may not map more than their memory (RLIMIT_DATA)");
}

// A foreign program's memory on a CPU is not limited (Daemon::take_process).
Result<void> Enforcer::limit_memory(const Client& c, const InstanceRecord& r, const Part& part) {
  const Device& device = devices_.at(part.device).device.device;
  if (device.kind != DeviceKind::kCpu || r.foreign || c.pod) return {};
  const Bytes most = memory_limit(part.slice, device);
  if (c.cgroup && cgroups_.limits_memory()) return Cgroup(*c.cgroup).set_memory(most);
  if (c.process.pid == 0) return {};
  // Root without CAP_SYS_RESOURCE may not: the instance runs unlimited, and the log says so.
  if (const auto limited = limit_data(c.process.pid, most); !limited.ok())
    log::warn("{}: its memory is not limited: {}", r.instance.id, limited.error().message);
  return {};
}

std::optional<std::string> Enforcer::killed_by_memory(const InstanceRecord& r) const {
  const auto found = clients_.find(r.instance.id);
  if (found == clients_.end() || r.foreign) return std::nullopt;
  for (size_t k = 0; k < found->second.size(); ++k) {
    const Client& c = found->second[k];
    const Part& part = r.instance.parts[k];
    if (c.group() != nullptr && c.group()->killed_by_memory_limit())
      return killed_by_limit(part.slice, devices_.at(part.device).device.device);
  }
  return std::nullopt;
}

Result<void> Enforcer::admit(const InstanceRecord& r) {
  const InstanceId& id = r.instance.id;
  remove_empty_groups();
  std::vector<Client> clients;
  Result<void> outcome;
  for (size_t part = 0; part < r.instance.parts.size() && outcome.ok(); ++part) {
    Result<Client> client = admit_part(r, part);
    if (client.ok())
      clients.push_back(std::move(*client));
    else
      outcome = client.error();
  }
  if (outcome.ok() && server_ != nullptr) outcome = open_socket(id);
  if (!outcome.ok()) {
    for (const Client& c : clients) forget(c);
    return outcome;
  }
  const std::lock_guard lock(mutex_);
  clients_.insert_or_assign(id, std::move(clients));
  return {};
}

size_t Enforcer::births_of(const InstanceRecord& r) const {
  const Device& first = devices_.at(r.instance.device()).device.device;
  return first.kind == DeviceKind::kCuda ? 1 : r.instance.parts.size();
}

Result<Enforcer::Client> Enforcer::admit_part(const InstanceRecord& r, size_t number) {
  const Part& part = r.instance.parts[number];
  HostedDevice& hosted = devices_.at(part.device);
  SLUICE_TRY(run_arbiter(hosted, r.instance.arbiter));
  const ProcessIdentity process = process_of(r, number);
  const bool shares = shared_uid_ != 0 && r.uid == shared_uid_;
  const uid_t own = is_fork(r.birth) || shares ? 0 : r.uid;  // forks share their template's
  Client c{.ref = {hosted.number, ++last_client_},
           .process = process,
           .uid = births_of(r) == 1 && is_program(r) ? own : 0,
           .owner = own != 0 ? own : owner_of(r, process),
           .counted_by_kernel = hosted.device.device.kind == DeviceKind::kCpu,
           .foreign = r.foreign};
  if (pods_) {
    c.pod = std::make_unique<PodGroup>(*pods_);
    c.starting = r.instance.state == InstanceState::kStarting;
    SLUICE_TRY(limit(c, part));
    if (!r.pod.empty()) hold_pod(c, r.pod);
  } else if (cgroups_.writable() && (number == 0 || c.counted_by_kernel)) {
    SLUICE_ASSIGN(group, cgroups_.open(part.device + "/" + r.instance.id));
    c.cgroup = group;
    SLUICE_TRY(limit(c, part));
  }
  SLUICE_ASSIGN(meter, make_meter(hosted, part.slice.sm, c));
  SLUICE_TRY(host_->admit(hosted.number, share_of(c.ref.client, r, part), std::move(meter)));
  if (part.slice.memory > 0) {
    const Result<MemoryAccount> memory =
        broker_.open(memory_name(r.instance.id, number), part.slice.memory, hosted.account);
    if (!memory.ok()) {
      host_->remove(c.ref);
      return memory.error();
    }
    c.memory = *memory;
  }
  return c;
}

void Enforcer::forget(const Client& c) {
  host_->remove(c.ref);
  broker_.close(c.memory);
}

// The ledger has ensured that a device in use already runs that arbiter.
Result<void> Enforcer::run_arbiter(HostedDevice& hosted, const std::string& name) {
  if (hosted.arbiter == name) return {};
  const policy::ArbiterConfig config = config_of(name, hosted.device.device);
  SLUICE_ASSIGN(arbiter, policy::make_arbiter(name, config));
  host_->set_arbiter(hosted.number, std::move(arbiter), config);
  log::info("{} runs the arbiter {}", hosted.device.device.id, name);
  hosted.arbiter = name;
  return {};
}

// The socket lies in a folder of its own, which can be mounted into a container. The folder stays
// the same while the slice lives, across daemons and their sockets.
Result<void> Enforcer::open_socket(const InstanceId& id) {
  if (permit_sockets_.empty()) return {};
  const std::string folder = permit_sockets_ + "/" + id;
  if ((mkdir(folder.c_str(), 0711) != 0 && errno != EEXIST) || chmod(folder.c_str(), 0711) != 0)
    return system_error(folder);
  return server_->open_for(id, folder + "/sock");
}

// On a CPU the kernel counts; on a GPU its account has to confirm clients' reports.
Result<std::unique_ptr<Meter>> Enforcer::make_meter(const HostedDevice& hosted, Share sm,
                                                    Client& c) const {
  const Device& device = hosted.device.device;
  if (device.kind == DeviceKind::kCuda)
    return std::unique_ptr<Meter>(std::make_unique<CudaMeter>(hosted.account, clock_.now()));
  std::unique_ptr<CpuCounter> counter = std::make_unique<ProcessCounter>();
  if (c.pod && pods_->readable()) {
    c.pod_counter = std::make_shared<LaterCounter>();
    counter = std::make_unique<SharedCounter>(c.pod_counter);
  } else if (c.cgroup) {
    SLUICE_ASSIGN(counted, CgroupCounter::open(c.cgroup->usage_file()));
    counter = std::move(counted);
  }
  const int millicores = std::max(device.millicores * sm.permille / 1000, 1);
  return std::unique_ptr<Meter>(
      std::make_unique<CpuMeter>(std::move(counter), millicores, clock_.now()));
}

Result<void> Enforcer::place(const InstanceRecord& r, pid_t pid, size_t number) {
  Client& c = clients_.at(r.instance.id).at(number);
  const Part& part = r.instance.parts[number];
  if (const ProcessIdentity first = process_of(r, number); pid == first.pid) {
    const std::lock_guard lock(mutex_);
    c.process = first;
  }
  SLUICE_TRY(limit_memory(c, r, part));
  if (c.pod) return place_in_pod(c, r);
  // Not under the lock: the kernel may take long, and attaching processes wait for it.
  if (c.cgroup) return c.cgroup->add(pid);
  const LocalDevice& device = devices_.at(part.device).device;
  if (device.cores.empty()) return {};
  return set_affinity(pid, cores_of(device, part.position.sm_begin, part.slice.sm));
}

Result<Attachment> Enforcer::attach(const InstanceRecord& r, int pidfd) {
  return host_->attach(clients_.at(r.instance.id).front().ref, r.process,
                       Fd(fcntl(pidfd, F_DUPFD_CLOEXEC, 0)));
}

Result<void> Enforcer::apply_parts(const InstanceRecord& r, const Parts& before) {
  std::vector<Client>& clients = clients_.at(r.instance.id);
  for (size_t part = 0; part < clients.size(); ++part) {
    Result<void> resized = apply_part(clients[part], r, r.instance.parts[part]);
    if (resized.ok()) continue;
    for (size_t k = 0; k <= part; ++k) (void)apply_part(clients[k], r, before[k]);
    return resized;
  }
  return {};
}

Result<void> Enforcer::apply_part(Client& c, const InstanceRecord& r, const Part& part) {
  SLUICE_TRY(host_->change_share(c.ref.device, share_of(c.ref.client, r, part)));
  broker_.set_limit(c.memory, part.slice.memory);
  SLUICE_TRY(limit_memory(c, r, part));
  return limit(c, part);
}

void Enforcer::release(const InstanceRecord& r) {
  const auto found = clients_.find(r.instance.id);
  if (found == clients_.end()) return;
  // An instance that dies during the start.
  if (server_ != nullptr) server_->close_for(r.instance.id);
  if (!permit_sockets_.empty()) rmdir((permit_sockets_ + "/" + r.instance.id).c_str());
  std::vector<Client> clients = std::move(found->second);
  {
    const std::lock_guard lock(mutex_);
    clients_.erase(found);
  }
  for (Client& c : clients) {
    forget(c);
    if (c.cgroup) empty(std::move(*c.cgroup), r.foreign);
    if (c.pod && r.foreign) c.pod->give_back();
  }
}

void Enforcer::reap(const InstanceRecord& r) {
  for (const Part& part : r.instance.parts) {
    if (!devices_.contains(part.device)) continue;
    Result<Cgroup> group = cgroups_.open(part.device + "/" + r.instance.id);
    if (group.ok()) empty(std::move(*group), r.foreign);
  }
}

void Enforcer::empty(Cgroup group, bool foreign) {
  Result<Cgroup> outside = cgroups_.open("released");
  constexpr int kMostRounds = 10;  // a process born meanwhile is found in the next round
  for (int round = 0; round < kMostRounds; ++round) {
    if (!foreign) group.signal(SIGKILL);
    for (const pid_t pid : group.processes())
      if (foreign && outside.ok()) (void)outside->add(pid);
  }
  left_.push_back(std::move(group));
  remove_empty_groups();
}

// A group can be removed only once its last process is gone, which a kill does not wait for.
void Enforcer::remove_empty_groups() {
  std::erase_if(left_, [](Cgroup& group) { return group.remove().ok(); });
}

void Enforcer::watch_ungated() {
  for (auto& [device, hosted] : devices_) {
    if (hosted.account == nullptr) continue;
    const std::map<pid_t, DeviceUse> account = hosted.account->uses();
    if (account.empty()) continue;
    for (const auto& [pid, use] : account) {
      const std::optional<ProcessIdentity> process = identity_of(pid);
      const std::optional<uid_t> uid = uid_of(pid);
      if (!process || !uid) continue;
      const std::optional<Holder> holder =
          slice_of({.process = *process, .uid = *uid, .pidfd = {}, .slice = ""});
      if (!holder) continue;
      std::vector<Client>& parts = clients_.at(holder->id);
      const auto c = std::ranges::find(parts, hosted.number,
                                       [](const Client& part) { return part.ref.device; });
      if (c == parts.end()) continue;
      if (host_->watch(c->ref, pid) > Nanos(0) && !std::exchange(c->ungated, true))
        log::warn("{}: process {} uses {} past the hook, without a permit; its slice is charged",
                  holder->id, pid, device);
    }
  }
}

// Returns whether nothing holds a program without a cgroup. Once true it stays so until one of its
// processes attaches, because the CPU time of the living ones falls when one of them ends.
bool Enforcer::is_unheld(const Client& c, int attached) {
  if (attached > 0) return false;
  return c.unheld || (identity_of(c.process.pid) == c.process &&
                      cpu_time_of(family_of(c.process.pid)) > kMostBeforePermits);
}

// Instances that Sluice starts itself have no right to leave their groups.
bool Enforcer::poll_strays() {
  bool changed = false;
  const std::map<InstanceId, ClientState> states =
      cgroups_.writable() ? std::map<InstanceId, ClientState>() : this->states();
  for (auto& [id, clients] : clients_) {
    Client& c = clients.front();  // a foreign one has a single part
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
  const Client& c = found->second.front();
  if (!c.strays.outside().empty())
    return "process " + std::to_string(c.strays.outside().begin()->first) +
           " has left its cgroup; nothing holds it";
  if (c.pod && !c.pod->fault().empty()) return c.pod->fault();
  if (c.unheld)
    return "nothing holds it: it asks for no permits, and without root it has no cgroup";
  return "";
}

Nanos Enforcer::outside(const InstanceId& id) {
  const auto found = clients_.find(id);
  return found == clients_.end() ? Nanos(0) : found->second.front().strays.used();
}

const std::string& Enforcer::arbiter_of(const DeviceId& device) const {
  return devices_.at(device).arbiter;
}

std::map<InstanceId, ClientState> Enforcer::states() {
  const std::map<ClientRef, ClientState> hosted = host_->states();
  std::map<InstanceId, ClientState> all;
  for (const auto& [id, clients] : clients_)
    for (const Client& c : clients)
      if (const auto found = hosted.find(c.ref); found != hosted.end()) add(all[id], found->second);
  return all;
}

std::optional<Bytes> Enforcer::memory_held(const InstanceId& id) const {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return std::nullopt;
  std::optional<Bytes> held;
  for (const Client& c : found->second)
    if (!c.counted_by_kernel && c.memory != 0)
      held = held.value_or(0) + broker_.look(c.memory).held;
  return held;
}

void Enforcer::signal(const InstanceId& id, int number) const {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  for (const Client& c : found->second)
    if (c.group() != nullptr) c.group()->signal(number);
}

std::vector<pid_t> Enforcer::processes(const InstanceId& id) const {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return {};
  std::vector<pid_t> all;
  for (const Client& c : found->second)
    if (c.group() != nullptr) std::ranges::copy(c.group()->processes(), std::back_inserter(all));
  return all;
}

}  // namespace sluice::node
