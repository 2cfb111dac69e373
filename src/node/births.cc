#include "node/births.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "base/log.h"
#include "model/quantity.h"
#include "wire/permit_steps.h"

namespace sluice::node {

Births::Births(asio::io_context& io, const Clock& clock, Records& records,
               Reservations& reservations, Enforcer& enforcer, LiveInstances& live, Launcher& forks,
               Launcher& execs, Launcher& pythons, Launcher* pods)
    : io_(io),
      clock_(clock),
      records_(records),
      reservations_(reservations),
      enforcer_(enforcer),
      live_(live),
      forks_(forks),
      execs_(execs),
      pythons_(pythons),
      pods_(pods) {}

void Births::begin(const InstanceId& id) {
  asio::co_spawn(io_, launch(id), asio::detached);
}

Launcher& Births::launcher_of(const Birth& birth) const {
  if (pods_ != nullptr) return *pods_;
  if (!std::holds_alternative<ExecOfProgram>(birth)) return forks_;
  return is_fork(birth) ? pythons_ : execs_;
}

asio::awaitable<void> Births::launch(InstanceId id) {
  const InstanceRecord asked = *records_.find(id);
  Launcher& launcher = launcher_of(asked.birth);
  Result<std::vector<Newborn>> newborns = co_await bear_all(asked, launcher);
  if (!newborns.ok()) {
    records_.find(id)->node_fault = newborns.error().kind != ErrorKind::kInvalid;
    co_return live_.end(id, newborns.error().message);
  }
  const Result<void> raised = co_await raise(id, std::move(*newborns), launcher);
  if (!raised.ok()) live_.give_up(id, raised.error());
}

// All processes, or none: if one cannot be born, the earlier ones end and are reaped.
asio::awaitable<Result<std::vector<Newborn>>> Births::bear_all(InstanceRecord asked,
                                                               Launcher& launcher) {
  std::vector<Newborn> newborns;
  const size_t count = enforcer_.births_of(asked);
  for (size_t part = 0; part < count; ++part) {
    Result<Newborn> one = co_await launcher.bear(asked, part);
    if (one.ok()) {
      newborns.push_back(std::move(*one));
      continue;
    }
    for (Newborn& born : newborns) {
      born.control = Channel();
      co_await wait_for_end(io_, born.pidfd.get());
      (void)how_it_ended(born.pidfd.get());
    }
    co_return one.error();
  }
  co_return std::move(newborns);
}

// From birth to readiness.
asio::awaitable<Result<void>> Births::raise(InstanceId id, std::vector<Newborn> newborns,
                                            Launcher& launcher) {
  InstanceRecord* r = records_.find(id);
  r->process = newborns.front().process;
  if (newborns.front().uid != 0) reservations_.share_uid(*r, newborns.front().uid);
  for (size_t part = 1; part < newborns.size(); ++part)
    r->siblings.push_back(newborns[part].process);
  r->node_fault = true;  // until it can go
  if (!is_program(*r) && r->pod.empty()) r->program = program_of(r->process.pid);
  std::vector<Tie> ties;
  for (Newborn& born : newborns) ties.push_back({std::move(born.pidfd), std::move(born.control)});
  live_.follow(id, std::move(ties));
  if (live_.unwanted(id)) co_return Error{ErrorKind::kUnavailable, "stopped while it started"};
  SLUICE_STEP("raise: born");
  if (const auto saved = records_.save(); !saved.ok()) co_return saved;
  SLUICE_STEP("raise: saved");
  if (const auto went = let_go(*r, launcher); !went.ok()) co_return went;
  const Infant infant = live_.infant(*r, 0);
  r->node_fault = false;
  SLUICE_STEP("raise: told to go");

  const Result<void> ready = co_await launcher.wait_until_ready(infant);
  r = records_.find(id);
  if (!ready.ok()) co_return ready.error();
  if (r == nullptr || r->instance.state != InstanceState::kStarting) co_return Result<void>();
  SLUICE_STEP("raise: ready");
  enforcer_.has_started(*r);
  r->instance.state = InstanceState::kReady;
  r->ready_after_ms = (clock_.now() - r->instance.started) / Millis(1);
  log::info("{}: ready after {} ms, pid {}, {} of {}", id, r->ready_after_ms, r->process.pid,
            format_share(r->instance.slice().quota.request), r->instance.device());
  records_.save_or_log();
  co_return Result<void>();
}

// The processes go only after those of all parts are in their cgroups.
Result<void> Births::let_go(const InstanceRecord& r, Launcher& launcher) {
  const std::vector<ProcessIdentity> processes = first_processes(r);
  for (size_t part = 0; part < processes.size(); ++part)
    SLUICE_TRY(enforcer_.place(r, processes[part].pid, part));
  for (size_t part = 0; part < processes.size(); ++part)
    SLUICE_TRY(launcher.go(live_.infant(r, part)));
  return {};
}

}  // namespace sluice::node
