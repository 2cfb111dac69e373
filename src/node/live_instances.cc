#include "node/live_instances.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <iterator>

#include "base/log.h"
#include "base/printable.h"
#include "model/drain_signal.h"
#include "model/quantity.h"
#include "process/log_folder.h"
#include "wire/http/await.h"
#include "wire/permit_steps.h"

namespace sluice::node {
namespace {

using wire::kAwait;

void send_signal(int pidfd, int number) {
  syscall(SYS_pidfd_send_signal, pidfd, number, nullptr, 0);
}

Fd copy_of(const Fd& fd) {
  return Fd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
}

}  // namespace

LiveInstances::LiveInstances(asio::io_context& io, const Clock& clock, Records& records,
                             Reservations& reservations, Enforcer& enforcer, MpsControls& mps,
                             Nanos grace, Born born)
    : io_(io),
      clock_(clock),
      records_(records),
      reservations_(reservations),
      enforcer_(enforcer),
      mps_(mps),
      grace_(grace),
      born_(born) {}

Result<void> LiveInstances::adopt() {
  for (InstanceRecord& r : records_.instances()) {
    if (!alive(r)) continue;
    const Instance& i = r.instance;
    SLUICE_TRY(reservations_.adopt(r));
    SLUICE_STEP("adopt: admitted");
    if (r.process.pid == 0) continue;  // a Pod whose birth begins anew
    if (!adopt_processes(r)) {
      end(i.id, "died while the node daemon started");
      continue;
    }
    if (r.owner.pid != 0) stop_after(i.id, r.owner);
    if (i.state == InstanceState::kDraining)
      asio::co_spawn(io_, kill_later(i.id, r.process, grace_), asio::detached);
    log::info("adopted {}: pid {}, {} of {}", i.id, r.process.pid,
              format_share(i.slice().quota.request), i.device());
  }
  return {};
}

// Returns false if one of them has ended; the others are killed then.
bool LiveInstances::adopt_processes(const InstanceRecord& r) {
  const std::vector<ProcessIdentity> processes = first_processes(r);
  std::vector<Tie> ties;
  for (size_t part = 0; part < processes.size(); ++part) {
    if (const auto placed = enforcer_.place(r, processes[part].pid, part); !placed.ok())
      log::warn("{}: {}", r.instance.id, placed.error().message);
    if (Result<Fd> pidfd = open_process(processes[part]); pidfd.ok())
      ties.push_back({std::move(*pidfd)});
  }
  if (ties.size() < processes.size()) {
    for (const Tie& tie : ties) send_signal(tie.pidfd.get(), SIGKILL);
    return false;
  }
  follow(r.instance.id, std::move(ties));
  return true;
}

void LiveInstances::follow(const InstanceId& id, std::vector<Tie> ties) {
  Live& live = live_[id];
  live.ties = std::move(ties);
  const Time started = records_.find(id)->instance.started;
  for (size_t part = 0; part < live.ties.size(); ++part)
    asio::co_spawn(io_, watch(id, part, copy_of(live.ties[part].pidfd), started), asio::detached);
}

void LiveInstances::stop_after(const InstanceId& id, const ProcessIdentity& owner) {
  asio::co_spawn(io_, stop_with_owner(id, owner), asio::detached);
}

Infant LiveInstances::infant(const InstanceRecord& r, size_t part) {
  Tie& tie = live_.at(r.instance.id).ties.at(part);
  return {r, tie.pidfd.get(), tie.control};
}

void LiveInstances::tell_threads(const InstanceId& id, uint32_t threads) {
  if (const auto found = live_.find(id); found != live_.end())
    for (Tie& tie : found->second.ties) (void)tie.control.send(wire::Resize{.threads = threads});
}

bool LiveInstances::unwanted(const InstanceId& id) const {
  const auto found = live_.find(id);
  return found != live_.end() && found->second.unwanted;
}

// `pidfd`: the watch's own, because the instance's ties may end before the process does.
asio::awaitable<void> LiveInstances::watch(InstanceId id, size_t part, Fd pidfd, Time started) {
  for (;;) {
    co_await wait_for_end(io_, pidfd.get());
    InstanceRecord* r = records_.find(id);
    const bool over = r == nullptr || !alive(*r) || r->instance.started != started;
    // A foreign slice lasts as long as any of its processes.
    if (!over && r->foreign && follow_family(*r)) {
      pidfd = copy_of(live_[id].ties[part].pidfd);
      continue;
    }
    const std::string how = how_it_ended(pidfd.get());  // reaps it if it is the daemon's child
    if (over) co_return;
    Live& live = live_[id];
    // While it drains, each part ends once it has finished.
    const bool last = ++live.ended == live.ties.size();
    if (!last && r->instance.state == InstanceState::kDraining) co_return;
    const std::string why = why_ended(*r, part, how);
    if (!last) kill_now(id);
    co_return end(id, why);
  }
}

std::string LiveInstances::why_ended(const InstanceRecord& r, size_t part,
                                     const std::string& how) const {
  if (!r.device_fault.empty()) return failed_device(r) + " failed: " + r.device_fault;
  if (const auto limit = enforcer_.killed_by_memory(r); limit) return *limit;
  if (const auto live = live_.find(r.instance.id); !live->second.fault.empty())
    return live->second.fault;
  if (first_processes(r).size() == 1) return how;
  return "the part on " + r.instance.parts[part].device + " ended: " + how;
}

// Returns the first if none has that fault any more.
const DeviceId& LiveInstances::failed_device(const InstanceRecord& r) const {
  for (const Part& p : r.instance.parts)
    if (const Device* d = reservations_.ledger().find(p.device);
        d != nullptr && d->fault == r.device_fault)
      return p.device;
  return r.instance.device();
}

Result<void> LiveInstances::stop(const InstanceId& id, Nanos drain) {
  InstanceRecord* r = records_.find(id);
  if (r == nullptr) return Error{ErrorKind::kNotFound, "there is no instance '" + id + "'"};
  if (!alive(*r)) return records_.remove(id);
  if (r->foreign) {
    end(id, "released");
    return {};
  }
  if (r->instance.state == InstanceState::kDraining) return {};
  const bool serves = r->instance.state == InstanceState::kReady;
  r->instance.state = InstanceState::kDraining;
  Live& live = live_[id];
  live.unwanted = true;
  if (born_ == Born::kByTheKubelet) {
    asio::co_spawn(io_, kill_later(id, r->process, drain + grace_), asio::detached);
  } else if (serves) {
    drain_process(*r, drain);
  } else {
    kill_now(id);
  }
  log::info("{}: drains for at most {} ms", id, drain / Millis(1));
  SLUICE_STEP("stop: told");
  return records_.save();
}

void LiveInstances::leaves(const InstanceId& id) {
  InstanceRecord* r = records_.find(id);
  if (r == nullptr || !alive(*r) || r->instance.state == InstanceState::kDraining) return;
  r->instance.state = InstanceState::kDraining;
  live_[id].unwanted = true;
  log::info("{}: its Pod is being deleted", id);
  records_.save_or_log();
}

void LiveInstances::drain_process(const InstanceRecord& r, Nanos drain) {
  if (is_program(r)) {
    asio::co_spawn(io_, end_processes(r.instance, drain), asio::detached);
    return;
  }
  for (Tie& tie : live_.at(r.instance.id).ties)
    if (!tie.control.send(wire::Drain{}).ok()) send_signal(tie.pidfd.get(), SIGTERM);
  asio::co_spawn(io_, kill_later(r.instance.id, r.process, drain), asio::detached);
}

Result<void> LiveInstances::end_program(const InstanceId& id, Nanos drain) {
  const InstanceRecord* r = records_.find(id);
  if (r == nullptr || !alive(*r) || !r->foreign) return stop(id, drain);
  asio::co_spawn(io_, end_processes(r->instance, drain), asio::detached);
  return {};
}

// How a dead process ended says more than that it does not answer.
void LiveInstances::give_up(const InstanceId& id, const Error& why) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  if (why.kind != ErrorKind::kUnavailable) found->second.fault = why.message;
  kill_now(id);
}

// Only that process: another instance may have the name by now.
asio::awaitable<void> LiveInstances::kill_later(InstanceId id, ProcessIdentity process,
                                                Nanos patience) {
  asio::steady_timer timer(io_, patience);
  co_await timer.async_wait(kAwait);
  const InstanceRecord* r = records_.find(id);
  if (r == nullptr || !alive(*r) || r->process != process) co_return;
  log::warn("{}: still there after {} ms, killed", id, patience / Millis(1));
  kill_now(id);
}

// A killed owner stops nothing itself.
asio::awaitable<void> LiveInstances::stop_with_owner(InstanceId id, ProcessIdentity owner) {
  if (const Result<Fd> pidfd = open_process(owner); pidfd.ok())
    co_await wait_for_end(io_, pidfd->get());
  const InstanceRecord* r = records_.find(id);
  if (r == nullptr || !alive(*r) || r->owner != owner) co_return;
  log::info("{}: pid {}, which it was started for, has ended", id, owner.pid);
  if (const auto stopped = stop(id, Nanos(0)); !stopped.ok())
    log::error("{}", stopped.error().message);
}

// Follows the next process of a foreign slice whose first one has ended.
bool LiveInstances::follow_family(InstanceRecord& r) {
  for (const pid_t pid : enforcer_.processes(r.instance.id)) {
    const std::optional<ProcessIdentity> next = identity_of(pid);
    if (!next) continue;
    Result<Fd> pidfd = open_process(*next);
    if (!pidfd.ok()) continue;
    r.process = *next;
    live_[r.instance.id].ties[0].pidfd = std::move(*pidfd);
    records_.save_or_log();
    return true;
  }
  return false;
}

// Killing an MPS client at work on a GPU may take its server's other clients along, but not after
// MPS has ended its work.
asio::awaitable<void> LiveInstances::end_processes(Instance i, Nanos drain) {
  const InstanceRecord* r = records_.find(i.id);
  const auto* program = r != nullptr ? std::get_if<ExecOfProgram>(&r->birth) : nullptr;
  const int first = program != nullptr ? signal_named(program->drain_signal) : SIGTERM;
  for (const int signal : {first, SIGKILL}) {
    std::vector<Fd> signalled;
    for (const ProcessIdentity& process : processes_of(i)) {
      co_await mps_.terminate(i.device(), process);
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

// Returns none once the instance is gone: another may have its name by now.
std::vector<ProcessIdentity> LiveInstances::processes_of(const Instance& i) const {
  const InstanceRecord* r = records_.find(i.id);
  if (r == nullptr || !alive(*r) || r->instance.started != i.started || r->process.pid == 0)
    return {};
  std::vector<pid_t> pids = enforcer_.processes(i.id);
  if (pids.empty())
    for (const ProcessIdentity& first : first_processes(*r))
      std::ranges::copy(family_of(first.pid), std::back_inserter(pids));
  std::vector<ProcessIdentity> processes;
  for (const pid_t pid : pids)
    if (const auto process = identity_of(pid)) processes.push_back(*process);
  return processes;
}

void LiveInstances::kill_now(const InstanceId& id) {
  enforcer_.signal(id, SIGKILL);  // its children, too
  for (const Tie& tie : live_[id].ties) send_signal(tie.pidfd.get(), SIGKILL);
}

void LiveInstances::end(const InstanceId& id, const std::string& why) {
  InstanceRecord* r = records_.find(id);
  if (r == nullptr || !alive(*r)) return;
  const bool wished = r->instance.state == InstanceState::kDraining;
  r->used = enforcer_.states()[id].used;
  reservations_.release(*r);
  live_.erase(id);
  SLUICE_STEP("end: released");
  if (r->socket.starts_with('/')) unlink(r->socket.c_str());
  r->instance.state = InstanceState::kGone;
  r->ended = unix_now();
  r->stopped = wished;
  r->error = printable(why);  // a template's words may be its model's
  if (const std::string said = r->foreign || wished ? "" : last_lines(r->log); !said.empty())
    r->error += "; its log ends: " + said;
  records_.save_or_log();
  SLUICE_STEP("end: saved");
  log::info("{}: gone, {}", id, r->error);
}

}  // namespace sluice::node
