#include "arbiters/hosted_device.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::policy {
namespace {

constexpr int kMostDecisions = 4;          // in a step
constexpr Nanos kLeastPause = Micros(20);  // minimum time between steps, whatever an arbiter asks
constexpr Nanos kLeastLook = Micros(100);  // between polls of what a client has left of its budget
// Between polls of a client that may run and seemed to want nothing. One that was kept from the CPU
// so long, or lies, may use its permit without a word, and beyond its budget: for so long at most.
constexpr Nanos kSilentLook = Millis(50);

}  // namespace

HostedDevice::HostedDevice(std::unique_ptr<Arbiter> arbiter, Budgets budgets) : budgets_(budgets) {
  run(std::move(arbiter));
}

void HostedDevice::run(std::unique_ptr<Arbiter> arbiter) {
  SLUICE_CHECK(arbiter != nullptr, "a device needs an arbiter");
  SLUICE_CHECK(clients_.empty(), "a device in use keeps its arbiter");
  arbiter_ = std::move(arbiter);
}

// --- clients -------------------------------------------------------------------------------------

// Observations come in the order of ids, so this is usually the next client.
HostedDevice::Client* HostedDevice::find_mutable(ClientId id) {
  const auto is_at = [&](size_t place) {
    return place < clients_.size() && clients_[place].id == id;
  };
  if (is_at(last_found_ + 1)) return &clients_[++last_found_];
  if (is_at(last_found_)) return &clients_[last_found_];
  const auto at = std::lower_bound(clients_.begin(), clients_.end(), id,
                                   [](const Client& c, ClientId i) { return c.id < i; });
  if (at == clients_.end() || at->id != id) return nullptr;
  last_found_ = static_cast<size_t>(at - clients_.begin());
  return &*at;
}

const HostedDevice::Client* HostedDevice::find(ClientId id) const {
  const auto at = std::lower_bound(clients_.begin(), clients_.end(), id,
                                   [](const Client& c, ClientId i) { return c.id < i; });
  return at != clients_.end() && at->id == id ? &*at : nullptr;
}

Result<void> HostedDevice::admit(const ShareClient& share, Time now) {
  SLUICE_TRY(arbiter_->admit(share, now));
  if (find(share.id) != nullptr) return {};
  const auto at = std::lower_bound(clients_.begin(), clients_.end(), share.id,
                                   [](const Client& c, ClientId i) { return c.id < i; });
  clients_.emplace(at)->id = share.id;
  return {};
}

void HostedDevice::remove(ClientId id, Time now) {
  std::erase_if(clients_, [id](const Client& c) { return c.id == id; });
  arbiter_->remove(id, now);
}

void HostedDevice::notify(ClientId id, Time now) {
  Client* client = find_mutable(id);
  if (client == nullptr) return;
  client->unmoved = false;
  client->idle_before = Nanos(0);
  client->expected_since = now;
}

void HostedDevice::leave(ClientId id, Time now) {
  Client* client = find_mutable(id);
  if (client == nullptr) return;
  now_ = now;
  revoke(*client);
}

// --- what clients show ---------------------------------------------------------------------------

void HostedDevice::observe(Client& client, const ClientObservation& seen) {
  client.last_active = seen.last_active;
  client.lag = seen.lag;
  client.quiet_by = seen.quiet_by;
  meter(client, seen.readings);
  const bool could = client.may_launch();
  client.submitted = seen.progress.submitted;
  expect(client, could, now_);
  judge_want(client, seen);
  take_hints(client, seen);
  // At the gate under a grant: the grant is spent, by the client's own count.
  if (client.grant && seen.waiting && seen.resting) revoke(client);
  notice_quiet(client);
}

void HostedDevice::meter(Client& client, std::span<const Reading> readings) {
  for (const Reading& r : readings) {
    client.used += r.busy;
    client.spent += r.busy;
    arbiter_->charge(client.id, r.busy, r.seen_until, now_);
  }
  if (!client.grant) return;
  if (client.spent >= client.grant->budget || now_ >= client.grant->valid_until) revoke(client);
}

void HostedDevice::judge_want(Client& client, const ClientObservation& seen) {
  const bool active = now_ - client.last_active < client.lag;
  // A client that waits, is granted a permit and does nothing with it was stopped, whatever its
  // page says. A live client notifies before it sleeps again.
  if (active)
    client.unmoved = false;
  else if (client.may_launch() && now_ - client.expected_since >= client.lag)
    client.unmoved = true;
  // A reported wish counts as a claim only if the client also waits or uses the device.
  const bool wanting = (seen.waiting && !client.unmoved) || (seen.want && active);
  if (wanting != client.wanting) arbiter_->want(client.id, wanting, now_);
  client.wanting = wanting;
}

void HostedDevice::take_hints(Client& client, const ClientObservation& seen) {
  arbiter_->progress(client.id, seen.progress, now_);
  for (const Iteration& i : seen.ended) arbiter_->iteration(client.id, i.cycle, i.kind, now_);
  if (seen.due != client.due) arbiter_->deadline(client.id, seen.due, now_);
  client.due = seen.due;
}

// Tells the arbiter once the meter shows nothing in flight. Returns whether it did. (The arbiter
// itself bounds the wait for a client whose meter cannot show that.)
bool HostedDevice::notice_quiet(Client& client) {
  if (!client.quiescing || client.quiet_by > now_) return false;
  client.quiescing = false;
  arbiter_->drained(client.id, now_);
  return true;
}

void HostedDevice::clear_writes() {
  writes_.revoke.clear();
  writes_.grant.clear();
  writes_.budgets.clear();
  writes_.contended.clear();
}

// --- decisions -----------------------------------------------------------------------------------

const PermitWrites& HostedDevice::step(Time now, std::span<const ClientObservation> observations) {
  now_ = now;
  decisions_ = 0;
  clear_writes();
  for (const ClientObservation& seen : observations)
    if (Client* client = find_mutable(seen.client)) observe(*client, seen);
  return proceed(true);
}

const PermitWrites& HostedDevice::resume(std::span<const Quiescence> revoked) {
  bool freed = decisions_ == 0;
  clear_writes();
  for (const Quiescence& q : revoked) {
    Client* client = find_mutable(q.client);
    if (client == nullptr) continue;
    client->quiet_by = q.by;
    freed |= notice_quiet(*client);
  }
  return proceed(freed);
}

// A permit revoked from an idle client is free at once: the step decides again with it.
const PermitWrites& HostedDevice::proceed(bool freed) {
  if (writes_.revoke.empty() && freed) {
    if (decisions_ < kMostDecisions)
      decide();
    else
      writes_.next = now_;
  }
  if (!writes_.revoke.empty()) return writes_;
  for (const Client& client : clients_) look_again(client);
  show_contention();
  show_neighbours();
  writes_.next = std::max(writes_.next, now_ + kLeastPause);
  return writes_;
}

void HostedDevice::decide() {
  ++decisions_;
  const Permits permits = arbiter_->step(now_);
  writes_.next = permits.next;
  for (const ClientId id : permits.revoke) revoke(*find_mutable(id));
  for (const Grant& g : permits.grant) grant(g);
  for (const Budget& b : permits.budgets) share(b);
}

// An arbiter that was not informed of a permit's end may revoke it once more.
void HostedDevice::revoke(Client& client) {
  if (client.quiescing) return;
  const bool could = client.may_launch();
  client.grant.reset();
  expect(client, could, now_);
  client.quiescing = true;
  client.quiet_by = Time::max();
  client.revoked_at = now_;
  writes_.revoke.push_back(client.id);
}

void HostedDevice::grant(const Grant& grant) {
  Client& client = *find_mutable(grant.client);
  const bool could = client.may_launch();
  client.grant = grant;
  expect(client, could, now_);
  client.spent = Nanos(0);
  client.quiescing = false;
  writes_.grant.push_back(grant);
}

void HostedDevice::share(const Budget& budget) {
  Client& client = *find_mutable(budget.client);
  const bool could = client.may_launch();
  const bool changed = client.budget.allowed != budget.allowed ||
                       client.budget.in_flight != budget.in_flight ||
                       client.budget.held != budget.held;
  client.budget = budget;
  client.quiescing = false;
  expect(client, could, now_);
  if (changed) writes_.budgets.push_back(budget);
}

// Notes when a client that may launch now is expected to, or for how long one that no longer may
// had not.
void HostedDevice::expect(Client& client, bool could_launch, Time now) {
  if (client.may_launch() == could_launch) return;
  if (could_launch)
    client.idle_before =
        std::max(now - std::max(client.expected_since, client.last_active), Nanos(0));
  else
    client.expected_since = now - client.idle_before;
}

// Asks for another step for changes that no client notifies of: an ended permit that quiesces, a
// client that went silent or uses its permit in silence, or a budget used up by a client that does
// not count it.
void HostedDevice::look_again(const Client& client) {
  const auto look_at = [&](Time t) {
    if (t > now_) writes_.next = std::min(writes_.next, t);
  };
  if (client.quiescing) return look_at(client.quiet_by);
  if (!client.may_launch()) return;
  look_at(client.wanting ? std::max(client.last_active, client.expected_since) + client.lag
                         : now_ + kSilentLook);
  if (client.grant && budgets_ == Budgets::kWatched)
    look_at(now_ + std::max(client.grant->budget - client.spent, kLeastLook));
}

// Shows clients whether a waiter exists. Then a client that becomes idle notifies, and its permit
// need not stay parked. A client that became idle just before it could see the flag is found by the
// next poll.
void HostedDevice::show_contention() {
  const auto waits = [](const Client& c) { return c.wanting && !c.may_launch(); };
  const auto waiting = std::count_if(clients_.begin(), clients_.end(), waits);
  for (Client& client : clients_) {
    const bool contended = waiting > (waits(client) ? 1 : 0);
    if (contended == std::exchange(client.contended, contended)) continue;
    writes_.contended.emplace_back(client.id, contended);
    if (contended) writes_.next = now_;
  }
}

void HostedDevice::show_neighbours() {
  const auto holds = [](const Client& c) { return c.grant || c.quiescing; };
  const auto holders = std::count_if(clients_.begin(), clients_.end(), holds);
  for (Client& client : clients_) {
    const bool beside = holders > (holds(client) ? 1 : 0);
    client.beside = client.budget.beside || beside;
    if (beside)
      client.alone_since = Time::max();
    else if (client.alone_since == Time::max())
      client.alone_since = now_;
    if (client.budget.in_flight != Nanos(0)) client.alone_since = client.budget.alone_since;
  }
}

}  // namespace sluice::policy
