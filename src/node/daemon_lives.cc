// The life of what holds a slice: an instance's birth and readiness, who is asked to end and who is
// killed, and what is freed once it has ended.
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "base/log.h"
#include "node/daemon.h"
#include "node/log_folder.h"
#include "wire/await.h"
#include "wire/permit_steps.h"

namespace sluice::node {
namespace {

using wire::kAwait;

void send_signal(int pidfd, int number) {
  syscall(SYS_pidfd_send_signal, pidfd, number, nullptr, 0);
}

void log_failure(const Result<void>& outcome) {
  if (!outcome.ok()) log::error("{}", outcome.error().message);
}

}  // namespace

asio::awaitable<void> Daemon::launch(InstanceId id) {
  const InstanceRecord asked = *find(id);
  Result<Birth> birth = co_await launcher_.bear(asked);
  if (!birth.ok()) {
    find_record(id)->node_fault = birth.error().kind != ErrorKind::kInvalid;
    co_return end(id, birth.error().message);
  }
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
  r->node_fault = true;  // until it has all that it needs to go
  r->program = program_of(birth.process.pid);
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
  r->node_fault = false;
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
    if (const auto limit = enforcer_->killed_by_memory(*r); limit) co_return end(id, *limit);
    const std::string fault = live_[id].fault;
    co_return end(id, fault.empty() ? how_it_ended(live_[id].pidfd.get()) : fault);
  }
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

// More often than the accounts of GPUs have news (gpu_watch.cc).
asio::awaitable<void> Daemon::charge_ungated() {
  constexpr Nanos kEvery = Millis(250);
  for (asio::steady_timer timer(io_);;) {
    timer.expires_after(kEvery);
    co_await timer.async_wait(kAwait);
    enforcer_->charge_ungated();
  }
}

// Twice a second: each time costs a scan of /proc for each program on a CPU.
asio::awaitable<void> Daemon::watch_strays() {
  constexpr Nanos kEvery = Millis(500);
  for (asio::steady_timer timer(io_);;) {
    timer.expires_after(kEvery);
    co_await timer.async_wait(kAwait);
    if (enforcer_->poll_strays()) tell_change();
  }
}

asio::awaitable<void> Daemon::keep_logs_small() {
  constexpr Nanos kEvery = Seconds(60);
  for (asio::steady_timer timer(io_);;) {
    std::set<std::string> living;
    for (const InstanceRecord& r : state_.instances)
      if (alive(r)) living.insert(r.instance.id);
    tidy_logs(settings_.paths.logs(), living, FileTime::clock::now());
    timer.expires_after(kEvery);
    co_await timer.async_wait(kAwait);
  }
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
  enforcer_->signal(id, SIGKILL);  // what it forked, too
  send_signal(live_[id].pidfd.get(), SIGKILL);
}

// Its share is free from here on.
void Daemon::end(const InstanceId& id, const std::string& why) {
  InstanceRecord* r = find_record(id);
  if (r == nullptr || !alive(*r)) return;
  const bool wished = r->instance.state == InstanceState::kDraining;
  r->used = enforcer_->states()[id].used;
  enforcer_->release(*r);
  ledger_.release(id);
  uids_.give_back(r->uid);
  live_.erase(id);
  SLUICE_STEP("end: released");
  if (!r->socket.empty()) unlink(r->socket.c_str());
  r->instance.state = InstanceState::kGone;
  r->ended = unix_now();
  r->stopped = wished;
  r->error = why;
  if (const std::string said = r->foreign || wished ? "" : last_lines(r->log); !said.empty())
    r->error += "; its log ends: " + said;
  log_failure(save());
  SLUICE_STEP("end: saved");
  log::info("{}: gone, {}", id, r->error);
}

}  // namespace sluice::node
