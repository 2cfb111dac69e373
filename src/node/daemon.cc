#include "node/daemon.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/log.h"
#include "node/machine.h"
#include "node/shift_room.h"
#include "wire/permit_steps.h"

namespace sluice::node {
namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr size_t kKeptDead = 200;  // records of instances that are gone, for those who ask why

void send_signal(int pidfd, int number) {
  syscall(SYS_pidfd_send_signal, pidfd, number, nullptr, 0);
}

void log_failure(const Result<void>& outcome) {
  if (!outcome.ok()) log::error("{}", outcome.error().message);
}

// The same request, whatever became of it since (a slice is resized, a position chosen).
bool same_start(const InstanceRecord& r, const StartRequest& q) {
  return !r.foreign && r.instance.function == q.function && r.instance.revision == q.revision &&
         r.instance.device == q.device && r.instance.batch == q.batch && r.model == q.model &&
         r.batching == q.batching;
}

}  // namespace

// ---- what is asked of us -----------------------------------------------------------------------

// A slice, new or changed, in the ledger. Where it may lie anywhere in its lane and the lane has no
// such room in one piece, programs that lie in the way are shifted; functions' instances are not,
// for the control loop has chosen their places.
Result<Promise> Daemon::promise(const InstanceId& id, const DeviceId& device, const Slice& slice,
                                const std::optional<Position>& position) {
  const bool held = ledger_.promises().contains(id);
  const auto ask = [&](const std::optional<Position>& at) {
    return held ? ledger_.change(id, slice, at) : ledger_.reserve(id, device, slice, at);
  };
  Result<Promise> promised = ask(position);
  if (promised.ok() || promised.error().kind != ErrorKind::kExhausted || position) return promised;
  for (const Shift& s : shifts_for(ledger_, id, device, slice,
                                   [&](const InstanceId& other) { return find(other)->foreign; })) {
    if (s.id == id) return ask(s.to);
    SLUICE_TRY(resize(s.id, find(s.id)->instance.slice, s.to));
  }
  return promised;
}

// Reserves, admits and records; undoes all of it when a step fails.
Result<void> Daemon::enter(InstanceRecord record, const std::optional<Position>& position) {
  Instance& i = record.instance;
  SLUICE_ASSIGN(promised, promise(i.id, i.device, i.slice, position));
  SLUICE_STEP("enter: reserved");
  i.position = promised.position;
  i.started = clock_.now();
  Result<void> outcome;
  if (settings_.own_uids && !record.foreign) {
    const Result<uid_t> uid = uids_.take();
    if (uid.ok())
      record.uid = *uid;
    else
      outcome = uid.error();
  }
  if (outcome.ok()) outcome = enforcer_->admit(record);
  SLUICE_STEP("enter: admitted");
  if (outcome.ok()) {
    state_.instances.push_back(record);
    outcome = save();
    SLUICE_STEP("enter: saved");
    if (outcome.ok()) return {};
    state_.instances.pop_back();
    enforcer_->release(record);
  }
  ledger_.release(i.id);
  uids_.give_back(record.uid);
  return outcome;
}

Result<const InstanceRecord*> Daemon::start(const StartRequest& q) {
  SLUICE_TRY(check_id(q.id, settings_.paths));
  if (const InstanceRecord* known = find(q.id)) {
    if (same_start(*known, q)) return known;
    return Error{ErrorKind::kConflict, "id: '" + q.id + "' is another instance"};
  }
  if (const Device* d = ledger_.find(q.device); d != nullptr && d->kind == DeviceKind::kCuda)
    return Error{ErrorKind::kInvalid, "device: " + q.device +
                                          " is a GPU, and the model server computes on CPUs; "
                                          "`sluice run` puts a program of your own on it"};
  if (access(q.model.path.c_str(), R_OK) != 0)
    return Error{ErrorKind::kInvalid, "model.path: " + q.model.path + ": " + std::strerror(errno)};
  const std::optional<ProcessIdentity> owner = identity_of(q.owner);
  if (q.owner != 0 && !owner)
    return Error{ErrorKind::kInvalid, "owner: " + std::to_string(q.owner) + " is no process here"};
  InstanceRecord r;
  r.instance = {.id = q.id,
                .function = q.function,
                .revision = q.revision,
                .device = q.device,
                .slice = q.slice,
                .batch = q.batch};
  r.model = q.model;
  r.batching = q.batching;
  r.socket = settings_.paths.socket_of(q.id);
  r.log = q.log.empty() ? settings_.paths.log_of(q.id) : q.log;
  r.owner = owner.value_or(ProcessIdentity{});
  SLUICE_TRY(enter(std::move(r), q.position));
  forget_old();
  asio::co_spawn(io_, launch(q.id), asio::detached);
  if (owner) asio::co_spawn(io_, stop_with_owner(q.id, *owner), asio::detached);
  return find(q.id);
}

Result<const InstanceRecord*> Daemon::take_process(const ProcessRequest& q) {
  SLUICE_TRY(check_id(q.id, settings_.paths));
  const std::optional<ProcessIdentity> process = identity_of(q.pid);
  if (!process || q.pid == getpid())
    return Error{ErrorKind::kInvalid, "pid: " + std::to_string(q.pid) + " is no process here"};
  if (const InstanceRecord* known = find(q.id)) {
    if (known->foreign && known->process == *process) return known;
    return Error{ErrorKind::kConflict, "id: '" + q.id + "' is another instance"};
  }
  for (const InstanceRecord& r : state_.instances)
    if (alive(r) && r.process == *process)
      return Error{ErrorKind::kConflict,
                   "pid: " + std::to_string(q.pid) + " is under the slice " + r.instance.id};
  const Device* device = ledger_.find(q.device);
  if (device != nullptr && device->kind != DeviceKind::kCuda && q.slice.memory > 0)
    return Error{ErrorKind::kInvalid, "slice.memory: " + q.device +
                                          " is no GPU: a program's memory there is not held to a "
                                          "limit; 0 is allowed"};
  SLUICE_ASSIGN(pidfd, open_process(*process));
  if (const Device* d = ledger_.find(q.device); d != nullptr && d->kind == DeviceKind::kCuda)
    SLUICE_TRY(mps_.pipes_for(*d, q.slice, q.pid));
  InstanceRecord r;
  r.instance = {.id = q.id,
                .function = q.function.name.empty() ? FunctionName{.name = q.id} : q.function,
                .state = InstanceState::kReady,
                .device = q.device,
                .slice = q.slice};
  r.foreign = true;
  r.process = *process;
  SLUICE_TRY(enter(r, q.position));
  for (const pid_t pid : family_of(q.pid)) {
    const Result<void> placed = enforcer_->place(*find(q.id), pid);
    if (!placed.ok() && pid == q.pid) log::warn("{}: {}", q.id, placed.error().message);
  }
  SLUICE_STEP("take: placed");
  live_[q.id].pidfd = std::move(pidfd);
  asio::co_spawn(io_, watch(q.id), asio::detached);
  log::info("{}: process {} is under a slice of {} ‰ of {}", q.id, q.pid,
            q.slice.quota.request.permille, q.device);
  return find(q.id);
}

Result<const InstanceRecord*> Daemon::resize(const InstanceId& id, const Slice& slice,
                                             const std::optional<Position>& position) {
  InstanceRecord* r = find_record(id);
  if (r == nullptr || !alive(*r))
    return Error{ErrorKind::kNotFound, "there is no instance '" + id + "'"};
  const Instance before = r->instance;
  const bool on_gpu = ledger_.find(before.device)->kind == DeviceKind::kCuda;
  if (on_gpu && (slice.memory > 0) != (before.slice.memory > 0))
    return Error{ErrorKind::kInvalid,
                 "slice.memory: " + std::to_string(slice.memory) +
                     ": whether a program's memory is counted (0: it is not) is settled " +
                     "when it comes; this one came with " + std::to_string(before.slice.memory)};
  SLUICE_ASSIGN(promised, promise(id, before.device, slice, position));
  r->instance.slice = promised.slice;
  r->instance.position = promised.position;
  SLUICE_STEP("resize: changed");
  Result<void> outcome = save();
  SLUICE_STEP("resize: saved");
  if (outcome.ok()) outcome = enforcer_->resize(*r);
  SLUICE_STEP("resize: in force");
  if (!outcome.ok()) {
    r->instance = before;
    SLUICE_CHECK(ledger_.change(id, before.slice, before.position).ok(), "what was held fits");
    (void)save();
    return outcome.error();
  }
  if (slice.sm != before.slice.sm)
    (void)live_[id].control.send(wire::Resize{
        .threads = static_cast<uint32_t>(threads_of(*ledger_.find(before.device), slice.sm))});
  log::info("{}: sm {} → {}, request {} → {}", id, before.slice.sm.permille, slice.sm.permille,
            before.slice.quota.request.permille, slice.quota.request.permille);
  return r;
}

Result<void> Daemon::stop(const InstanceId& id, Nanos drain) {
  InstanceRecord* r = find_record(id);
  if (r == nullptr) return Error{ErrorKind::kNotFound, "there is no instance '" + id + "'"};
  if (!alive(*r)) {
    std::erase_if(state_.instances, [&](const auto& one) { return one.instance.id == id; });
    return save();
  }
  if (r->foreign) {
    end(id, "released");
    return {};
  }
  if (r->instance.state == InstanceState::kDraining) return {};
  const bool serves = r->instance.state == InstanceState::kReady;
  r->instance.state = InstanceState::kDraining;
  Live& live = live_[id];
  live.unwanted = true;
  if (serves && !live.control.send(wire::Drain{}).ok()) send_signal(live.pidfd.get(), SIGTERM);
  if (!serves && live.pidfd.valid()) kill_now(id);
  if (serves) asio::co_spawn(io_, kill_later(id, r->process, drain), asio::detached);
  log::info("{}: drains for at most {} ms", id, drain / Millis(1));
  SLUICE_STEP("stop: told");
  return save();
}

Result<void> Daemon::end_program(const InstanceId& id, Nanos drain) {
  const InstanceRecord* r = find(id);
  if (r == nullptr || !alive(*r) || !r->foreign) return stop(id, drain);
  asio::co_spawn(io_, end_processes(r->instance, drain), asio::detached);
  return {};
}

ProgramEnvironment Daemon::environment(const InstanceRecord& r) const {
  const Device& device = *ledger_.find(r.instance.device);
  return environment_on(
      device, r.instance.slice,
      std::filesystem::absolute(settings_.paths.permit_socket_of(r.instance.id)),
      {.mps_pipes = mps_.pipes_for(device, r.instance.slice, r.process.pid).value_or({}),
       .model_store = stores_.socket_of(device.id)});
}

// Programs of one function, on the GPU whose store it is.
Result<std::string> Daemon::owner_on(const DeviceId& gpu, const Peer& peer) const {
  const std::optional<InstanceId> id = enforcer_->slice_of(peer);
  const InstanceRecord* r = id ? find(*id) : nullptr;
  if (r == nullptr || r->instance.device != gpu)
    return Error{ErrorKind::kNotFound,
                 "process " + std::to_string(peer.process.pid) + " has no slice of it"};
  return to_string(r->instance.function);
}

asio::awaitable<void> Daemon::leave() {
  return mps_.quit();
}

// ---- an instance's life ------------------------------------------------------------------------

asio::awaitable<void> Daemon::launch(InstanceId id) {
  const InstanceRecord asked = *find(id);
  Result<Birth> birth = co_await launcher_.bear(asked);
  if (!birth.ok()) co_return end(id, birth.error().message);
  const Result<void> raised = co_await raise(id, std::move(*birth));
  if (raised.ok() || live_.count(id) == 0) co_return;
  // Ends when its process has; until then it holds what it holds. How a dead one died says more
  // than that it does not answer.
  if (raised.error().kind != ErrorKind::kUnavailable) live_[id].fault = raised.error().message;
  kill_now(id);
}

// From birth to readiness. Nothing runs unenforced: the process waits for Go, which comes when it
// is in its cgroup and has its pages.
asio::awaitable<Result<void>> Daemon::raise(InstanceId id, Birth birth) {
  InstanceRecord* r = find_record(id);
  r->process = birth.process;
  Live& live = live_[id];
  live.pidfd = std::move(birth.pidfd);
  live.control = std::move(birth.control);
  asio::co_spawn(io_, watch(id), asio::detached);
  if (live.unwanted) co_return Error{ErrorKind::kUnavailable, "stopped while it started"};
  SLUICE_STEP("raise: born");
  if (const auto saved = save(); !saved.ok()) co_return saved;
  SLUICE_STEP("raise: saved");
  if (const auto placed = enforcer_->place(*r, r->process.pid); !placed.ok()) co_return placed;
  Result<Attachment> pages = enforcer_->attach(*r, live.pidfd.get());
  if (!pages.ok()) co_return pages.error();
  SLUICE_STEP("raise: has pages");

  wire::Go go{.threads = static_cast<uint32_t>(
                  threads_of(*ledger_.find(r->instance.device), r->instance.slice.sm))};
  wire::set_text(go.permit_socket, settings_.paths.permit_socket_of(id));
  const std::array fds{pages->pages.permit.get(), pages->pages.usage.get(), pages->bell.get()};
  if (const auto sent = live.control.send(go, fds); !sent.ok()) co_return sent;
  SLUICE_STEP("raise: told to go");

  const Result<wire::Packet> packet = co_await live.control.receive(settings_.ready_patience);
  const Result<wire::Ready> ready = answer_as<wire::Ready>(packet);
  r = find_record(id);
  if (!ready.ok()) co_return ready.error();
  if (r == nullptr || r->instance.state != InstanceState::kStarting) co_return Result<void>();
  SLUICE_STEP("raise: ready");
  r->instance.state = InstanceState::kReady;
  r->ready_after_ms = (clock_.now() - r->instance.started) / Millis(1);
  log::info("{}: ready after {} ms, pid {}, {} ‰ of {}", id, r->ready_after_ms, r->process.pid,
            r->instance.slice.quota.request.permille, r->instance.device);
  log_failure(save());
  co_return Result<void>();
}

asio::awaitable<void> Daemon::watch(InstanceId id) {
  for (;;) {
    const int pidfd = live_[id].pidfd.get();
    co_await wait_for_end(io_, pidfd);
    InstanceRecord* r = find_record(id);
    if (r == nullptr || !alive(*r)) co_return;
    // A foreign slice lasts as long as any of its processes.
    if (r->foreign && follow_family(*r)) continue;
    if (!r->device_fault.empty())
      co_return end(id, r->instance.device + " failed: " + r->device_fault);
    const std::string fault = live_[id].fault;
    co_return end(id, fault.empty() ? how_it_ended(live_[id].pidfd.get()) : fault);
  }
}

// The process that was there then: another instance may have the name by now.
asio::awaitable<void> Daemon::kill_later(InstanceId id, ProcessIdentity process, Nanos patience) {
  asio::steady_timer timer(io_, patience);
  co_await timer.async_wait(kAwait);
  const InstanceRecord* r = find(id);
  if (r == nullptr || !alive(*r) || r->process != process) co_return;
  log::warn("{}: still there after {} ms, killed", id, patience / Millis(1));
  kill_now(id);
}

// Nobody else would stop what was started for one who was killed.
asio::awaitable<void> Daemon::stop_with_owner(InstanceId id, ProcessIdentity owner) {
  if (const Result<Fd> pidfd = open_process(owner); pidfd.ok())
    co_await wait_for_end(io_, pidfd->get());
  const InstanceRecord* r = find(id);
  if (r == nullptr || !alive(*r) || r->owner != owner) co_return;
  log::info("{}: pid {}, which it was started for, has ended", id, owner.pid);
  log_failure(stop(id, Nanos(0)));
}

// The next process of a foreign slice whose first one has ended.
bool Daemon::follow_family(InstanceRecord& r) {
  for (const pid_t pid : enforcer_->processes(r.instance.id)) {
    const std::optional<ProcessIdentity> next = identity_of(pid);
    if (!next) continue;
    Result<Fd> pidfd = open_process(*next);
    if (!pidfd.ok()) continue;
    r.process = *next;
    live_[r.instance.id].pidfd = std::move(*pidfd);
    log_failure(save());
    return true;
  }
  return false;
}

// One that is killed while it works on a GPU may take the other clients of its server along; one
// whose work MPS has ended does not.
asio::awaitable<void> Daemon::end_processes(Instance i, Nanos drain) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    std::vector<Fd> signalled;
    for (const ProcessIdentity& process : processes_of(i)) {
      co_await mps_.terminate(i.device, process);
      Result<Fd> pidfd = open_process(process);
      if (!pidfd.ok()) continue;
      send_signal(pidfd->get(), signal);
      signalled.push_back(std::move(*pidfd));
    }
    const Time give_up = clock_.now() + drain;
    for (const Fd& pidfd : signalled)
      co_await ends_within(io_, pidfd.get(), give_up - clock_.now());
  }
}

// None once it is gone: another may have its name by now.
std::vector<ProcessIdentity> Daemon::processes_of(const Instance& i) const {
  const InstanceRecord* r = find(i.id);
  if (r == nullptr || !alive(*r) || r->instance.started != i.started) return {};
  std::vector<pid_t> pids = enforcer_->processes(i.id);
  if (pids.empty()) pids = family_of(r->process.pid);
  std::vector<ProcessIdentity> processes;
  for (const pid_t pid : pids)
    if (const auto process = identity_of(pid)) processes.push_back(*process);
  return processes;
}

void Daemon::kill_now(const InstanceId& id) {
  for (const pid_t pid : enforcer_->processes(id)) kill(pid, SIGKILL);  // what it forked, too
  send_signal(live_[id].pidfd.get(), SIGKILL);
}

// Its share is free from here on.
void Daemon::end(const InstanceId& id, const std::string& why) {
  InstanceRecord* r = find_record(id);
  if (r == nullptr || !alive(*r)) return;
  const bool wished = r->instance.state == InstanceState::kDraining;
  enforcer_->release(*r);
  ledger_.release(id);
  uids_.give_back(r->uid);
  live_.erase(id);
  SLUICE_STEP("end: released");
  if (!r->socket.empty()) unlink(r->socket.c_str());
  r->instance.state = InstanceState::kGone;
  r->ended = unix_now();
  r->error = why;
  if (const std::string said = r->foreign || wished ? "" : last_lines(r->log); !said.empty())
    r->error += "; its log ends: " + said;
  log_failure(save());
  SLUICE_STEP("end: saved");
  log::info("{}: gone, {}", id, r->error);
}

// Keeps the newest dead for those who ask why.
void Daemon::forget_old() {
  auto dead = static_cast<size_t>(std::ranges::count_if(state_.instances, std::not_fn(alive)));
  std::erase_if(state_.instances,
                [&](const InstanceRecord& r) { return !alive(r) && dead-- > kKeptDead; });
}

// ---- what is asked about us --------------------------------------------------------------------

InstanceRecord* Daemon::find_record(const InstanceId& id) {
  const auto found = std::ranges::find_if(
      state_.instances, [&](const InstanceRecord& r) { return r.instance.id == id; });
  return found == state_.instances.end() ? nullptr : &*found;
}

const InstanceRecord* Daemon::find(const InstanceId& id) const {
  return const_cast<Daemon*>(this)->find_record(id);
}

Result<void> Daemon::save() {
  tell_change();
  return registry_.save(state_);
}

void Daemon::tell_change() {
  ++version_;
  for (asio::steady_timer* waiter : waiting_) waiter->cancel();
}

asio::awaitable<void> Daemon::change_after(uint64_t version, Nanos patience) {
  if (version_ > version) co_return;
  asio::steady_timer timer(io_, patience);
  waiting_.insert(&timer);
  co_await timer.async_wait(kAwait);
  waiting_.erase(&timer);
}

DaemonView Daemon::view() const {
  DaemonView v{.boot_id = state_.boot_id,
               .generation = state_.generation,
               .version = version_,
               .backstop = enforcer_->has_backstop(),
               .enforcement = enforcer_->describe(),
               .devices = ledger_.devices()};
  if (!settings_.own_uids) v.enforcement += "; instances share this user's uid";
  const std::map<std::string, GpuLoad> loads = gpus_->loads();
  for (Device& d : v.devices) {
    if (const auto load = loads.find(d.uuid); load != loads.end()) v.loads[d.id] = load->second;
    if (d.kind == DeviceKind::kCuda) d.mps_status = mps_.describe(d);
  }
  for (const InstanceRecord& r : state_.instances) {
    const ClientState state = alive(r) ? enforcer_->state(r.instance.id) : ClientState{};
    v.instances.push_back({r, state.used, state.sm_refusal,
                           alive(r) ? peak_memory(r.process.pid) : 0,
                           enforcer_->memory_held(r.instance.id)});
  }
  return v;
}

}  // namespace sluice::node
