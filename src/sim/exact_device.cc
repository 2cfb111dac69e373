#include "sim/exact_device.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sim/sharing.h"

namespace sluice::sim {

using policy::ClientId;

Result<void> ExactDevice::run(std::string_view arbiter) {
  SLUICE_ASSIGN(made, policy::make_arbiter(arbiter, {.window = policy::window_of(arbiter)}));
  if (hosted_)
    hosted_->run(std::move(made));
  else
    hosted_.emplace(std::move(made), policy::HostedDevice::Budgets::kCountedByClients);
  return {};
}

Result<void> ExactDevice::admit(const policy::ShareClient& share, Time now) {
  pass(now);
  SLUICE_TRY(hosted_->admit(share, now));
  const bool is_new = !clients_.contains(share.id);
  Client& client = clients_[share.id];
  client.share = share;
  if (is_new) client.last_active = now;
  step_due_ = true;
  return {};
}

void ExactDevice::remove(ClientId id, Time now) {
  pass(now);
  hosted_->remove(id, now);
  clients_.erase(id);
  step_due_ = true;
  plan(now);
}

void ExactDevice::begin(ClientId id, Nanos work, int batch, Time due, Time now) {
  pass(now);
  Client& c = clients_.at(id);
  SLUICE_CHECK(!c.wants(), "a model server runs one batch at a time");
  c.work = std::max(work, Nanos(1));
  c.done = Nanos(0);
  c.batch = batch;
  c.due = due;
  c.began.reset();
  // With a parked permit it runs at once; otherwise it waits, and notifies the host.
  start_operators(now);
  ring_doorbells(now);
  plan(now);
}

Time ExactDevice::next() const {
  if (clients_.empty()) return Time::max();
  Time next = step_due_ ? now_ : next_step_;
  for (const auto& [id, c] : clients_) {
    if (c.running) next = std::min(next, c.stops);
    if (c.wants() && c.done == c.work) next = now_;  // it ended in a call of another kind
  }
  return std::max(next, now_);
}

std::vector<ClientId> ExactDevice::step(Time now) {
  pass(now);
  std::vector<ClientId> ended = end_batches(now);
  ring_doorbells(now);
  if (step_due_ || next_step_ <= now) decide(now);
  start_operators(now);
  ring_doorbells(now);
  plan(now);
  return ended;
}

// Running clients use the device until now.
void ExactDevice::pass(Time now) {
  const Nanos time = std::max(now - now_, Nanos(0));
  for (auto& [id, c] : clients_) {
    if (!c.running || time == Nanos(0)) continue;
    const Share others = beside(c);
    const int crowd = crowding(c.share.sm, others);
    const int slow = slowness(c.share.sm, others, physics_.contention);
    const Nanos used = (time * 1000 + Nanos(crowd - 1)) / crowd;
    c.busy += used;
    c.spent += used;
    const Nanos done = std::min(c.done + time * 1000 / slow, c.done_then - Nanos(1));
    c.done = now >= c.stops ? c.done_then : std::max(c.done, done);
  }
  now_ = std::max(now, now_);
  for (auto& [id, c] : clients_)
    if (c.running && c.stops <= now) c.running = false;
}

std::vector<ClientId> ExactDevice::end_batches(Time now) {
  std::vector<ClientId> ended;
  for (auto& [id, c] : clients_) {
    if (!c.wants() || c.done < c.work) continue;
    c.ended.push_back({now - c.began.value_or(now), static_cast<uint32_t>(c.batch)});
    c.work = c.done = Nanos(0);
    c.due = Time::max();
    ended.push_back(id);
    if (c.contended) ring(id, now);
  }
  return ended;
}

void ExactDevice::ring(ClientId id, Time now) {
  hosted_->notify(id, now);
  step_due_ = true;
}

// For clients that have begun to wait.
void ExactDevice::ring_doorbells(Time now) {
  for (auto& [id, c] : clients_) {
    const bool waits = c.waits(now);
    if (waits && !c.rang) ring(id, now);
    c.rang = waits;
  }
}

void ExactDevice::decide(Time now) {
  ++steps_;
  step_due_ = false;
  observations_.resize(clients_.size());
  auto seen = observations_.begin();
  for (auto& [id, c] : clients_) observe(c, *seen++, now);
  const policy::PermitWrites* writes = &hosted_->step(now, observations_);
  for (write_permits(*writes); !writes->revoke.empty(); write_permits(*writes)) {
    std::vector<policy::Quiescence> revoked;
    for (const ClientId id : writes->revoke) revoked.push_back({id, quiet_by(id, now)});
    writes = &hosted_->resume(revoked);
  }
  next_step_ = writes->next;
}

void ExactDevice::observe(Client& c, policy::ClientObservation& seen, Time now) {
  const Nanos busy = c.busy - c.reported;
  c.reported = c.busy;
  if (busy > Nanos(0)) c.last_active = now;
  seen.client = c.share.id;
  seen.waiting = c.waits(now);
  seen.want = c.wants() || c.running;
  seen.resting = c.rests(now);
  seen.readings.assign(1, {busy, now});
  seen.last_active = c.last_active;
  seen.lag = physics_.meter_lag;
  seen.quiet_by = hosted_->find(c.share.id)->quiescing ? quiet_by(c.share.id, now) : Time::max();
  seen.due = c.due;
  seen.ended = std::exchange(c.ended, {});
}

Time ExactDevice::quiet_by(ClientId id, Time now) const {
  const Client& c = clients_.at(id);
  if (c.rests(now)) return now;
  return std::max(hosted_->find(id)->revoked_at, c.last_active) + physics_.meter_lag;
}

void ExactDevice::write_permits(const policy::PermitWrites& writes) {
  for (const ClientId id : writes.revoke) clients_.at(id).permitted = false;
  for (const policy::Grant& g : writes.grant) {
    Client& c = clients_.at(g.client);
    c.permitted = true;
    c.budget = g.budget;
    c.valid_until = g.valid_until;
    c.spent = Nanos(0);
  }
  for (const auto& [id, contended] : writes.contended) clients_.at(id).contended = contended;
}

void ExactDevice::start_operators(Time now) {
  for (auto& [id, c] : clients_) {
    if (!c.wants() || c.running || !c.may_run(now)) continue;
    c.running = true;
    if (!c.began) c.began = now;
  }
}

Share ExactDevice::beside(const Client& client) const {
  Share others;
  for (const auto& [id, c] : clients_)
    if (c.running && &c != &client) others = others + c.share.sm;
  return others;
}

// When each running client pauses at its gate, or ends its batch. An operator that has begun runs
// to its end; the client begins none once its permit has ended.
void ExactDevice::plan(Time now) {
  for (auto& [id, c] : clients_) {
    if (!c.running) continue;
    const Share others = beside(c);
    const int crowd = crowding(c.share.sm, others);
    const int slow = slowness(c.share.sm, others, physics_.contention);
    const auto after = [&c = c, slow, now](Nanos work) {
      return now + ((work - c.done) * slow + Nanos(999)) / 1000;
    };
    const Nanos operator_ends = (c.done / physics_.grain + 1) * physics_.grain;
    c.done_then = std::min(operator_ends, c.work);
    if (c.may_run(now)) {
      const Nanos lasts =
          std::min(((c.budget - c.spent) * crowd + Nanos(999)) / 1000, c.valid_until - now);
      const Nanos takes = after(c.work) - now;
      const Nanos done = lasts < takes ? c.done + lasts * 1000 / slow : c.work;
      const Nanos whole = (done + physics_.grain - Nanos(1)) / physics_.grain * physics_.grain;
      c.done_then = std::max(c.done_then, std::min(whole, c.work));
    }
    c.stops = after(c.done_then);
  }
}

const policy::ShareClient* ExactDevice::share_of(ClientId id) const {
  const auto found = clients_.find(id);
  if (found == clients_.end() || hosted_->find(id) == nullptr) return nullptr;
  return &found->second.share;
}

int ExactDevice::held_sm(Time now) const {
  int sm = 0;
  for (const auto& [id, c] : clients_)
    if (c.running || c.may_run(now)) sm += c.share.sm.permille;
  return sm;
}

}  // namespace sluice::sim
