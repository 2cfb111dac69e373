#include "sim/gpu_device.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sluice::sim {

using policy::ClientId;

GpuDevice::GpuDevice(const Physics& physics)
    : physics_(physics), slices_(physics.gpu.value(), physics.contention) {}

Result<void> GpuDevice::run(std::string_view arbiter) {
  SLUICE_ASSIGN(made, policy::make_arbiter(arbiter, {.window = policy::window_of(arbiter),
                                                     .side_by_side = physics_.gpu->side_by_side}));
  if (hosted_)
    hosted_->run(std::move(made));
  else
    hosted_.emplace(std::move(made), policy::HostedDevice::Budgets::kWatched);
  return {};
}

// --- clients and their batches -------------------------------------------------------------------

Result<void> GpuDevice::admit(const policy::ShareClient& share, Time now) {
  pass(now);
  SLUICE_TRY(hosted_->admit(share, now));
  const bool is_new = !clients_.contains(share.id);
  Client& client = clients_[share.id];
  client.share = share;
  if (is_new) client.last_active = now;
  slices_.put(share.id, share.position.sm_begin, share.sm);
  slices_.settle();
  step_due_ = true;
  return {};
}

void GpuDevice::remove(ClientId id, Time now) {
  pass(now);
  hosted_->remove(id, now);
  clients_.erase(id);
  slices_.remove(id);
  slices_.settle();
  step_due_ = true;
}

void GpuDevice::begin(ClientId id, Nanos work, int batch, Time due, Time now) {
  pass(now);
  Client& c = clients_.at(id);
  SLUICE_CHECK(c.at == Client::At::kIdle, "a model server runs one batch at a time");
  c.at = Client::At::kPrepares;
  c.work = std::max(work, Nanos(1));
  c.launched = Nanos(0);
  c.due = due;
  c.progress.begun = now;
  c.progress.kind = static_cast<uint32_t>(batch);
  c.progress.submitted_before = c.progress.submitted;
  prepare(c, Nanos(0));
  if (c.share.has_slo) notify(c);
  go_on();
}

Time GpuDevice::next() const {
  if (clients_.empty()) return Time::max();
  Time next = step_due_ ? now_ : std::min(next_step_, slices_.next());
  for (const auto& [id, c] : clients_) {
    if (c.at == Client::At::kPrepares) next = std::min(next, c.prepared);
    if (c.at == Client::At::kBound) next = std::min(next, slices_.when(id, next_end(c)));
    if (c.batch_ended()) next = now_;  // in a call of another kind
  }
  return std::max(next, now_);
}

// Where a batch has ended, the model server may begin the next one before the arbiter decides: a
// program that goes on at once has not been idle.
std::vector<ClientId> GpuDevice::step(Time now) {
  pass(now);
  std::vector<ClientId> ended = end_batches();
  go_on();
  if (!ended.empty()) {
    step_due_ = true;
  } else if (step_due_ || next_step_ <= now_) {
    decide();
    go_on();
  }
  return ended;
}

// The device runs what is launched until now.
void GpuDevice::pass(Time now) {
  slices_.advance(now);
  now_ = std::max(now, now_);
  for (auto& [id, c] : clients_) notice_ends(c);
}

// An operator has run once all of it has.
void GpuDevice::notice_ends(Client& c) {
  const Nanos done = slices_.done(c.share.id), before = c.progress.submitted_before;
  const Nanos each = c.device_part(physics_.grain);
  c.progress.finished =
      done == c.progress.submitted ? done : before + (done - before) / each * each;
}

// Returns how much of the client's work has run once its next operator has.
Nanos GpuDevice::next_end(const Client& c) const {
  return std::min(c.progress.finished + c.device_part(physics_.grain), c.progress.submitted);
}

std::vector<ClientId> GpuDevice::end_batches() {
  std::vector<ClientId> ended;
  for (auto& [id, c] : clients_) {
    if (!c.batch_ended()) continue;
    c.ended.push_back({now_ - c.progress.begun, c.progress.kind});
    c.at = Client::At::kIdle;
    c.due = c.progress.begun = Time::max();
    c.progress.waits_for_end = false;
    ended.push_back(id);
    if (c.contended || c.share.has_slo) notify(c);
  }
  return ended;
}

// --- hosts ---------------------------------------------------------------------------------------

bool GpuDevice::Client::may_launch(Time now) const {
  if (grant) return now < grant->valid_until && progress.submitted - granted_from < grant->budget;
  return progress.submitted < budget.allowed && !budget.held;
}

Nanos GpuDevice::Client::most_in_flight() const {
  if (grant) return policy::Budget::kInFlight;
  const Nanos left = budget.allowed - progress.submitted;
  return std::min(budget.in_flight, std::max(left, policy::Budget::kLeastInFlight));
}

// All hosts do what they can now, and the device takes up what they launch.
void GpuDevice::go_on() {
  for (auto& [id, c] : clients_)
    if (c.at != Client::At::kIdle) run_host(c);
  slices_.settle();
}

void GpuDevice::run_host(Client& c) {
  const bool waited = c.at == Client::At::kGate;
  policy::Progress& p = c.progress;
  p.waits_for_budget = p.waits_for_device = p.waits_for_end = false;
  for (c.at = Client::At::kPrepares; c.launched < c.work && c.prepared <= now_;) {
    const Nanos length = std::min(physics_.grain, c.work - c.launched);
    const Nanos all = c.in_flight() + c.device_part(length);
    if (!c.may_launch(now_)) {
      c.at = Client::At::kGate;
      p.waits_for_budget = true;
      if (!waited) notify(c);
      return;
    }
    if (c.in_flight() > Nanos(0) && all > c.most_in_flight()) {
      c.at = Client::At::kBound;
      p.waits_for_device = true;
      return;
    }
    launch(c, length);
  }
  if (c.launched < c.work) return;
  c.at = Client::At::kEnd;
  p.waits_for_end = true;
}

// behind: the device's part of the operator before.
void GpuDevice::prepare(Client& c, Nanos behind) {
  const Nanos length = std::min(physics_.grain, c.work - c.launched);
  c.preparation = c.host == kNone ? Nanos(0) : behind + length - c.device_part(length);
  c.prepared = now_ + c.preparation;
}

void GpuDevice::launch(Client& c, Nanos length) {
  const Nanos cost = c.device_part(length);
  slices_.queue(c.share.id, cost);
  c.progress.submitted += cost;
  c.progress.host += c.preparation;
  c.progress.longest = std::max(c.progress.longest, cost);
  c.launched += length;
  prepare(c, cost);
}

// --- the arbiter ---------------------------------------------------------------------------------

void GpuDevice::notify(const Client& c) {
  hosted_->notify(c.share.id, now_);
  step_due_ = true;
}

void GpuDevice::decide() {
  ++steps_;
  step_due_ = false;
  observations_.resize(clients_.size());
  auto seen = observations_.begin();
  for (auto& [id, c] : clients_) observe(c, *seen++);
  const policy::PermitWrites* writes = &hosted_->step(now_, observations_);
  for (write_permits(*writes); !writes->revoke.empty(); write_permits(*writes)) {
    std::vector<policy::Quiescence> revoked;
    for (const ClientId id : writes->revoke) revoked.push_back({id, quiet_by(id)});
    writes = &hosted_->resume(revoked);
  }
  next_step_ = writes->next;
}

void GpuDevice::observe(Client& c, policy::ClientObservation& seen) {
  const Nanos busy = c.progress.submitted - std::exchange(c.charged, c.progress.submitted);
  if (busy > Nanos(0) || c.in_flight() > Nanos(0)) c.last_active = now_;
  seen.client = c.share.id;
  seen.waiting = c.progress.waits_for_budget;
  seen.want = c.at != Client::At::kIdle;
  seen.resting = c.at == Client::At::kIdle || c.at == Client::At::kGate;
  seen.readings.assign(1, {busy, now_});
  seen.last_active = c.last_active;
  seen.lag = physics_.meter_lag;
  seen.quiet_by = quiet_by(c.share.id);
  seen.due = c.due;
  seen.ended = std::exchange(c.ended, {});
  seen.progress = c.progress;
}

// Other clients' slices may delay it; then the host asks again.
Time GpuDevice::quiet_by(ClientId id) const {
  return now_ + (clients_.at(id).progress.submitted - slices_.done(id));
}

void GpuDevice::write_permits(const policy::PermitWrites& writes) {
  for (const ClientId id : writes.revoke) clients_.at(id).grant.reset();
  for (const policy::Grant& g : writes.grant) {
    Client& c = clients_.at(g.client);
    c.grant = g;
    c.granted_from = c.progress.submitted;
  }
  for (const policy::Budget& b : writes.budgets) clients_.at(b.client).budget = b;
  for (const auto& [id, contended] : writes.contended) clients_.at(id).contended = contended;
}

const policy::ShareClient* GpuDevice::share_of(ClientId id) const {
  const auto found = clients_.find(id);
  if (found == clients_.end() || hosted_->find(id) == nullptr) return nullptr;
  return &found->second.share;
}

}  // namespace sluice::sim
