// One device's step (arbiter_host.h): hands the state of its clients' pages and meters to its
// policy::HostedDevice, and writes the resulting permits into the pages.
#include <algorithm>
#include <utility>

#include "enforce/arbiter_host.h"

namespace sluice::node {
namespace {

// Returns when a client whose permit ended at `revoked_at` has nothing on the device any more, as
// far as its meter can tell now.
Time quiet_by(Meter& meter, Time now, Time revoked_at, bool resting) {
  if (meter.drained(now, revoked_at, resting)) return now;
  return std::max(meter.look_again(now, revoked_at), now + Nanos(1));
}

}  // namespace

void ArbiterHost::step(Device& device) {
  const Time before = clock_.now(), now = look(device);
  device.observations.resize(device.clients.size());
  auto seen = device.observations.begin();
  auto hosted = device.hosted.clients().begin();  // the same clients, in the same order
  for (auto& [id, client] : device.clients)
    observe(client, *hosted++, device.millicores != 0, *seen++, now);
  const policy::PermitWrites* writes = &device.hosted.step(now, device.observations);
  for (write_permits(device, *writes, now); !writes->revoke.empty();
       write_permits(device, *writes, now))
    writes = &device.hosted.resume(look_at_revoked(device, writes->revoke, now));
  if (device.millicores == 0) write_neighbours(device, before);
  device.next = writes->next;
}

// Reads everything observed, and the clock after it.
Time ArbiterHost::look(Device& device) {
  for (auto& [id, client] : device.clients) {
    client.claims = claims(client);
    client.meter->look();
    if (device.millicores != 0) continue;
    for (const ProcessNumber number : client.processes) {
      Process& process = processes_.at(number);
      const sluice_device_report before =
          std::exchange(process.said, process.pages.device_report());
      process.active = process.said.submitted_ns != before.submitted_ns ||
                       process.said.finished_ns != before.finished_ns;
    }
  }
  return clock_.now();
}

// --- what clients show ---------------------------------------------------------------------------

void ArbiterHost::observe(Client& client, const policy::HostedDevice::Client& hosted, bool on_cpu,
                          policy::ClientObservation& seen, Time now) {
  const Claims& c = client.claims;
  Meter& meter = *client.meter;
  if (!on_cpu) pass_reports_on(client, now);
  seen.client = hosted.id;
  seen.waiting = c.waiting;
  seen.want = c.want;
  seen.resting = c.resting;
  seen.readings.clear();
  while (const std::optional<Reading> reading = meter.poll(now, c.resting))
    seen.readings.push_back(*reading);
  seen.last_active = meter.last_active();
  seen.lag = meter.lag();
  seen.quiet_by =
      hosted.quiescing ? quiet_by(meter, now, hosted.revoked_at, c.resting) : Time::max();
  seen.progress = meter.progress();
  seen.progress.waits_for_budget = c.waiting;
  hear_hints(client, seen, now);
}

void ArbiterHost::hear_hints(const Client& client, policy::ClientObservation& seen, Time now) {
  seen.due = Time::max();
  seen.ended.clear();
  for (const ProcessNumber number : client.processes) {
    Process& process = processes_.at(number);
    const Hints::Told told = process.hints.hear(process.pages.hints(), now);
    seen.due = std::min(seen.due, told.due);
    if (told.cycle > Nanos(0)) seen.ended.push_back({told.cycle, told.kind});
    if (told.begun >= seen.progress.begun) continue;
    const uint64_t submitted = process.said.submitted_ns;
    const uint64_t since = submitted - std::min(submitted, told.begun_submitted);
    seen.progress.begun = told.begun;
    seen.progress.kind = told.last_kind;
    seen.progress.submitted_before =
        seen.progress.submitted - std::min(Nanos(since & INT64_MAX), seen.progress.submitted);
  }
}

ArbiterHost::Claims ArbiterHost::claims(const Client& client) const {
  Claims c;
  for (const ProcessNumber number : client.processes) {
    const Pages& pages = processes_.at(number).pages;
    const UsageView usage = pages.usage();
    c.waiting |= usage.waiting;
    c.want |= usage.want;
    c.resting &= !usage.want || usage.ack_seq == (pages.seq() | 1);
  }
  return c;
}

void ArbiterHost::pass_reports_on(Client& client, Time now) {
  for (const ProcessNumber number : client.processes) {
    const Process& process = processes_.at(number);
    client.meter->report(process.id, process.said, now);
  }
}

// --- what is written -----------------------------------------------------------------------------

void ArbiterHost::write_permits(Device& device, const policy::PermitWrites& writes, Time now) {
  for (const policy::ClientId id : writes.revoke) {
    Client& client = device.clients.at(id);
    SLUICE_STEP("decide: revoked");
    for (const ProcessNumber p : client.processes)
      sluice_permit_revoke(&processes_.at(p).pages.permit());
  }
  for (const policy::Grant& grant : writes.grant) {
    Client& client = device.clients.at(grant.client);
    SLUICE_STEP("decide: granted");
    for (const ProcessNumber p : client.processes)
      write_grant(device, grant, grant.budget, processes_.at(p), now);
  }
  for (const policy::Budget& budget : writes.budgets) {
    SLUICE_STEP("decide: allowed");
    for (const ProcessNumber p : device.clients.at(budget.client).processes)
      write_budget(*device.hosted.find(budget.client), processes_.at(p), now);
  }
  for (const auto& [id, contended] : writes.contended)
    for (const ProcessNumber number : device.clients.at(id).processes)
      write_flags(processes_.at(number), contended, processes_.at(number).beside);
}

// The arbiter has seen all that clients had reported until then. Processes of one client are
// neighbours of each other, too. One of version 1 that waits may have what is left of a budget that
// has not changed.
void ArbiterHost::write_neighbours(Device& device, Time until) {
  auto hosted = device.hosted.clients().begin();
  for (auto& [id, client] : device.clients) {
    const policy::HostedDevice::Client& seen = *hosted++;
    const auto active = std::ranges::count_if(
        client.processes, [this](ProcessNumber p) { return processes_.at(p).active; });
    for (const ProcessNumber p : client.processes) {
      Process& process = processes_.at(p);
      const bool siblings = active > (process.active ? 1 : 0);
      write_neighbours(process, seen.beside || siblings, siblings ? Time::max() : seen.alone_since,
                       until);
      if (!process.pages.has_totals() && process.pages.usage().waiting)
        write_budget(seen, process, until);
    }
  }
}

void ArbiterHost::write_neighbours(Process& process, bool beside, Time alone_since, Time until) {
  if (alone_since == Time::max()) process.not_alone_until = until;
  const Time since = std::max(alone_since, process.not_alone_until);
  const sluice_time_alone alone{page_time(since), page_time(until)};
  sluice_say_alone(&process.pages.permit(), &alone);
  if (process.beside != beside) write_flags(process, process.contended, beside);
}

// Its claims are read after the revocation: a client that rests then starts nothing more.
const std::vector<policy::Quiescence>& ArbiterHost::look_at_revoked(
    Device& device, const std::vector<policy::ClientId>& revoked, Time now) {
  device.revoked.clear();
  for (const policy::ClientId id : revoked) {
    const Client& client = device.clients.at(id);
    const Time revoked_at = device.hosted.find(id)->revoked_at;
    device.revoked.push_back(
        {id, quiet_by(*client.meter, now, revoked_at, claims(client).resting)});
  }
  return device.revoked;
}

}  // namespace sluice::node
