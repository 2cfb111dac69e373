// One device's decisions (arbiter_host.h): what its clients say and use, told to its arbiter, and
// the arbiter's permits carried out.
#include <algorithm>

#include "node/arbiter_host.h"

namespace sluice::node {
namespace {

constexpr Nanos kLeastPause = Micros(20);  // whatever an arbiter asks, the thread does not spin
constexpr Nanos kLeastLook = Micros(100);  // between looks at what a client has left of its budget

}  // namespace

Time ArbiterHost::look(Device& device) {
  for (auto& [id, client] : device.clients) {
    client.claims = claims(client);
    client.meter->look();
    if (device.millicores != 0) continue;
    for (const ProcessNumber number : client.processes) {
      Process& process = processes_.at(number);
      process.said = process.pages.device_report();
    }
  }
  return clock_.now();
}

void ArbiterHost::step(Device& device) {
  device.next = Time::max();
  const Time now = look(device);
  for (auto& [id, client] : device.clients) observe(device, client, now);
  // A permit taken from a client that rests is free at once: decide again with it.
  constexpr int kMostRounds = 4;
  for (int round = 0; round < kMostRounds && decide(device, now); ++round) {
  }
  for (const auto& [id, client] : device.clients) look_again(device, client, now);
  show_contention(device, now);
  device.next = std::max(device.next, now + kLeastPause);
}

// One decision, carried out; whether it set something free.
bool ArbiterHost::decide(Device& device, Time now) {
  const policy::Permits permits = device.arbiter->step(now);
  device.next = permits.next;
  for (const policy::ClientId id : permits.revoke) revoke(device.clients.at(id), now);
  for (const policy::Grant& g : permits.grant) grant(device.clients.at(g.client), g, now);
  bool freed = false;
  for (const policy::ClientId id : permits.revoke) {
    Client& client = device.clients.at(id);
    freed |= notice_drained(device, client, claims(client), now);
  }
  return freed;
}

void ArbiterHost::observe(Device& device, Client& client, Time now) {
  const Claims& c = client.claims;
  if (device.millicores == 0) pass_reports_on(client, now);
  meter(device, client, c.resting, now);
  const bool active = now - client.meter->last_active() < client.meter->lag();
  // Who waits, is given a permit and does nothing with it was stopped, whatever its page goes on to
  // say. One that lives rings before it sleeps again.
  if (active)
    client.unmoved = false;
  else if (client.grant && now - client.expected_since >= client.meter->lag())
    client.unmoved = true;
  // Work in hand is a claim; a client that neither waits nor uses its cores has none to speak of.
  const bool wanting = (c.waiting && !client.unmoved) || (c.want && active);
  if (wanting != client.wanting) device.arbiter->want(client.share.id, wanting, now);
  client.wanting = wanting;
  hear_hints(device, client, now);
  notice_drained(device, client, c, now);
}

void ArbiterHost::hear_hints(Device& device, Client& client, Time now) {
  Time due = Time::max();
  for (const ProcessNumber number : client.processes) {
    Process& process = processes_.at(number);
    const Hints::Told told = process.hints.hear(process.pages.hints(), now);
    due = std::min(due, told.due);
    if (told.cycle > Nanos(0))
      device.arbiter->iteration(client.share.id, told.cycle, told.kind, now);
  }
  if (due != client.due) device.arbiter->deadline(client.share.id, due, now);
  client.due = due;
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

void ArbiterHost::meter(Device& device, Client& client, bool resting, Time now) {
  while (const std::optional<Reading> reading = client.meter->poll(now, resting)) {
    client.used += reading->busy;
    client.spent += reading->busy;
    device.arbiter->charge(client.share.id, reading->busy, reading->seen_until, now);
  }
  if (!client.grant) return;
  if (client.spent >= client.grant->budget || now >= client.grant->valid_until) revoke(client, now);
}

// Tells the arbiter that nothing is in flight any more, as the meter sees it. (The arbiter keeps
// the bound for those of whom it cannot tell.)
bool ArbiterHost::notice_drained(Device& device, Client& client, const Claims& c, Time now) {
  if (client.grant && c.waiting && c.resting) revoke(client, now);  // spent, by its own count
  if (!client.draining) return false;
  if (!client.meter->drained(now, client.revoked_at, c.resting)) return false;
  client.draining = false;
  device.arbiter->drained(client.share.id, now);
  return true;
}

// When something is to be seen that nobody will ring for: a drain that ends, a client that has
// fallen silent, a budget that is used up by who does not count it.
void ArbiterHost::look_again(Device& device, const Client& client, Time now) {
  const auto look_at = [&](Time t) {
    if (t > now) device.next = std::min(device.next, t);
  };
  if (client.draining) return look_at(client.meter->look_again(now, client.revoked_at));
  if (!client.grant) return;
  if (client.wanting)
    look_at(std::max(client.meter->last_active(), client.expected_since) + client.meter->lag());
  if (device.millicores == 0)
    look_at(now + std::max(client.grant->budget - client.spent, kLeastLook));
}

void ArbiterHost::revoke(Client& client, Time now) {
  if (client.grant)
    client.unused =
        std::max(now - std::max(client.expected_since, client.meter->last_active()), Nanos(0));
  client.grant.reset();
  client.draining = true;
  client.revoked_at = now;
  client.meter->revoked(now);
  SLUICE_STEP("decide: revoked");
  for (const ProcessNumber p : client.processes)
    sluice_permit_revoke(&processes_.at(p).pages.permit());
}

void ArbiterHost::grant(Client& client, const policy::Grant& grant, Time now) {
  if (!client.grant) client.expected_since = now - client.unused;
  client.grant = grant;
  client.spent = Nanos(0);
  client.draining = false;
  client.meter->granted(now);
  SLUICE_STEP("decide: granted");
  for (const ProcessNumber p : client.processes) write_grant(client, processes_.at(p), now);
}

// Whether somebody else waits: then a client that goes idle rings, so that its permit need not be
// parked. One that went idle just before it could see the flag is seen by another look.
void ArbiterHost::show_contention(Device& device, Time now) {
  const auto waits = [](const auto& c) { return c.second.wanting && !c.second.grant; };
  const auto waiting = std::count_if(device.clients.begin(), device.clients.end(), waits);
  for (const auto& entry : device.clients) {
    const bool contended = waiting > (waits(entry) ? 1 : 0);
    for (const ProcessNumber p : entry.second.processes) {
      uint32_t& flags = processes_.at(p).pages.permit().flags;
      const uint32_t value = contended ? SLUICE_CONTENDED : 0;
      if (__atomic_exchange_n(&flags, value, __ATOMIC_SEQ_CST) != value && contended)
        device.next = now;
    }
  }
}

}  // namespace sluice::node
