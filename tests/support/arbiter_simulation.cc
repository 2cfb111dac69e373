#include "tests/support/arbiter_simulation.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sluice::policy {
namespace {
constexpr Nanos kReportEvery = Millis(2);
constexpr Nanos kNever = Nanos::max();
constexpr Nanos kSilence = Millis(12);  // as for the CPU's meter: then a client has stopped
constexpr Nanos kForGood = std::chrono::hours(1000);
}  // namespace

Behaviour greedy(Nanos op) {
  return {.op_min = op, .op_max = op};
}
Behaviour greedy(Nanos op_min, Nanos op_max) {
  return {.op_min = op_min, .op_max = op_max};
}
Behaviour idle() {
  return {.rest = kNever, .starts_resting = true};
}
Behaviour bursty(Nanos op, Nanos work, Nanos rest) {
  return {.op_min = op, .op_max = op, .work = work, .rest = rest, .starts_resting = true};
}
Behaviour serving(Nanos op, int ops, Nanos request_every, Nanos slo) {
  return {.op_min = op,
          .op_max = op,
          .rest = kNever,
          .starts_resting = true,
          .iteration = ops,
          .request_every = request_every,
          .slo = slo};
}
Behaviour training(Nanos op, int ops) {
  return {.op_min = op, .op_max = op, .iteration = ops};
}
Behaviour never_draining() {
  return {.op_min = kNever, .op_max = kNever};
}

Behaviour pretending() {
  return {.works = false};
}

Packing random_packing(Random& random, size_t pieces) {
  struct Rectangle {
    int x = 0, y = 0, width = 20, height = 20;  // sm and time, in 50 ‰
  };
  std::vector<Rectangle> cut = {{}};
  while (cut.size() < pieces) {
    Rectangle& whole = cut[random.below(cut.size())];
    Rectangle rest = whole;
    int Rectangle::*const side = random.chance(0.5) ? &Rectangle::width : &Rectangle::height;
    int Rectangle::*const begin = side == &Rectangle::width ? &Rectangle::x : &Rectangle::y;
    if (whole.*side < 2) continue;
    const int at = static_cast<int>(random.between(1, whole.*side - 1));
    whole.*side = at;
    rest.*side -= at;
    rest.*begin += at;
    cut.push_back(rest);
  }
  for (size_t i = cut.size(); i > 1; --i) std::swap(cut[i - 1], cut[random.below(i)]);
  Packing packing;
  for (const Rectangle& r : cut) {
    const Share request{50 * r.height};
    packing.push_back({.id = static_cast<ClientId>(packing.size() + 1),
                       .sm = {50 * r.width},
                       .quota = {request, request},
                       .position = {{50 * r.x}, {50 * r.y}}});
  }
  return packing;
}

Simulation::Simulation(std::string_view arbiter, uint64_t seed, const ArbiterConfig& config)
    : config_(config), random_(seed) {
  auto made = make_arbiter(arbiter, config);
  SLUICE_CHECK(made.ok(), made.error().message);
  device_.emplace(std::move(*made), HostedDevice::Budgets::kCountedByClients);
}

Result<void> Simulation::add(const ShareClient& share, const Behaviour& behaviour,
                             const Meter& meter) {
  SLUICE_TRY(device_->admit(share, host_clock()));
  Client client{.share = share, .behaviour = behaviour, .meter = meter};
  client.wanting = behaviour.starts_resting;  // toggled below
  client.samples.assign((next_sample_ - start_) / config_.window, Nanos(0));
  client.rested.assign(client.samples.size(), true);
  client.rested_now = true;
  client.next_report = now_ + kReportEvery;
  client.last_active = now_;
  if (behaviour.request_every > Nanos(0)) client.next_request = now_;
  Client& added = clients_[share.id] = client;
  if (behaviour.starts_resting) {
    added.wanting = false;
    added.toggles = behaviour.rest == kNever
                        ? Time::max()
                        : now_ + from_seconds(random_.exponential(seconds(behaviour.rest)));
  } else {
    toggle(added);
  }
  step_due_ = true;
  return {};
}

Result<void> Simulation::change(const ShareClient& share) {
  SLUICE_TRY(device_->admit(share, host_clock()));
  clients_.at(share.id).share = share;
  step_due_ = true;
  return {};
}

void Simulation::remove(ClientId id) {
  device_->remove(id, host_clock());
  clients_.erase(id);
  step_due_ = true;
}

void Simulation::say_deadline(ClientId id, Nanos from_now) {
  if (const auto at = clients_.find(id); at != clients_.end()) at->second.due = now_ + from_now;
  step_due_ = true;
}

void Simulation::say_iteration(ClientId id, Nanos cycle, uint32_t kind) {
  const auto at = clients_.find(id);
  if (at != clients_.end()) at->second.ended_iterations.push_back({cycle, kind});
}

void Simulation::at(Nanos when, std::function<void()> what) {
  script_.emplace(start_ + when, std::move(what));
}

void Simulation::pause(Nanos when, Nanos how_long) {
  at(when, [this, how_long] { paused_until_ = now_ + how_long; });
}

Nanos Simulation::used(ClientId id, Nanos from, Nanos to) const {
  const auto& samples = clients_.at(id).samples;
  return samples.at(to / config_.window) - samples.at(from / config_.window);
}

bool Simulation::backlogged(ClientId id, Nanos from, Nanos to) const {
  const auto& rested = clients_.at(id).rested;
  for (int64_t w = from / config_.window; w < to / config_.window; ++w) {
    if (rested.at(w)) return false;
  }
  return true;
}

bool Simulation::holds(ClientId id) const {
  return clients_.at(id).may_run(now_);
}

Time Simulation::host_clock() {
  if (clock_back_ == Nanos(0) || !random_.chance(0.1)) return now_;
  return now_ - Nanos(random_.between(0, clock_back_.count()));
}

void Simulation::toggle(Client& c) {
  const Nanos mean = c.wanting ? c.behaviour.rest : c.behaviour.work;
  c.toggles = mean == kNever ? Time::max()
                             : now_ + Micros(1) + from_seconds(random_.exponential(seconds(mean)));
  set_wanting(c, !c.wanting);
}

void Simulation::set_wanting(Client& c, bool wanting) {
  c.wanting = wanting;
  if (wanting) return;
  c.rested_now = true;
  become_idle(c);
}

// An operator in flight ends first.
void Simulation::become_idle(const Client& c) {
  if (!c.wanting && !c.running && c.contended) ring(c.share.id);
}

void Simulation::ring(ClientId id) {
  device_->notify(id, host_clock());
  step_due_ = true;
}

// For clients that have begun to wait.
void Simulation::ring_doorbells() {
  for (auto& [id, c] : clients_) {
    const bool waits = c.waits(now_);
    if (waits && !c.rang) ring(id);
    c.rang = waits;
  }
}

void Simulation::take_requests() {
  for (auto& [id, c] : clients_) {
    if (c.next_request > now_) continue;
    const double distance = random_.exponential(seconds(c.behaviour.request_every));
    c.next_request = now_ + Micros(1) + from_seconds(distance);
    c.requests.push_back(now_);
    if (c.requests.size() > 1) continue;
    set_wanting(c, true);
    update_due(c);
  }
}

void Simulation::finish_iteration(Client& c) {
  c.ops_done = 0;
  ++c.iterations;
  c.ended_iterations.push_back({now_ - c.iteration_began, 0});
  if (c.behaviour.request_every == Nanos(0)) return;
  c.latencies.push_back(now_ - c.requests.front());
  c.requests.pop_front();
  if (c.requests.empty()) set_wanting(c, false);
  update_due(c);
}

void Simulation::update_due(Client& c) {
  c.due = c.requests.empty() ? Time::max() : c.requests.front() + c.behaviour.slo;
}

Time Simulation::next_event() const {
  Time next = next_sample_;
  for (const auto& [id, c] : clients_) {
    if (c.running) next = std::min(next, c.op_end);
  }
  if (paused()) return std::min(next, paused_until_);
  next = std::min(next, step_due_ ? now_ : next_step_);
  if (!script_.empty()) next = std::min(next, script_.begin()->first);
  for (const auto& [id, c] : clients_) next = std::min(next, next_event(c));
  return std::max(next, now_);
}

// Of its own events.
Time Simulation::next_event(const Client& c) const {
  Time next = std::min(c.toggles, c.next_request);
  if (!c.running && c.pause_end > now_) next = std::min(next, c.pause_end);
  if (c.meter.lag > Nanos(0)) next = std::min(next, c.next_report);
  return next;
}

void Simulation::pass_until(Time t) {
  for (auto& [id, c] : clients_) {
    if (!c.running) continue;
    const Nanos ran = (t - now_) * 1000 / crowd_, busy = ran * config_.pace / 1000;
    if (c.op_left != kNever) c.op_left = std::max(c.op_left - ran, Nanos(0));
    c.busy += busy;
    c.spent += busy;
  }
  now_ = t;
  if (now_ < next_sample_) return;
  for (auto& [id, c] : clients_) {
    c.samples.push_back(c.busy);
    if (c.samples.size() > 1) c.rested.push_back(c.rested_now);
    c.rested_now = !c.wanting;
  }
  next_sample_ += config_.window;
}

void Simulation::end_operators() {
  for (auto& [id, c] : clients_) {
    if (!c.running || c.op_end > now_) continue;
    c.running = false;
    c.ran = true;
  }
}

void Simulation::notice_ends() {
  for (auto& [id, c] : clients_) {
    if (c.toggles <= now_) toggle(c);
    if (!std::exchange(c.ran, false)) continue;
    c.pause_end = now_ + c.behaviour.pause;
    if (++c.ops_done == c.behaviour.iteration) finish_iteration(c);
    become_idle(c);
  }
}

void Simulation::report() {
  for (auto& [id, c] : clients_) {
    if (c.meter.lag == Nanos(0) || c.next_report > now_) continue;
    const Nanos busy = c.busy - c.reported;
    c.reported = c.busy;
    c.next_report = now_ + kReportEvery;
    if (random_.chance(c.meter.loss)) continue;
    const Time arrives = now_ + Nanos(random_.between(0, c.meter.lag.count()));
    script_.emplace(arrives, [this, id = id, reading = Reading{busy, now_}] {
      const auto at = clients_.find(id);
      if (at == clients_.end()) return;
      at->second.readings.push_back(reading);
      step_due_ = true;
    });
  }
}

void Simulation::step() {
  ++steps_;
  step_due_ = false;
  const Time now = host_clock();
  observations_.resize(clients_.size());
  auto seen = observations_.begin();
  for (auto& [id, c] : clients_) observe(c, *seen++, now);
  const PermitWrites* writes = &device_->step(now, observations_);
  for (write_permits(*writes); !writes->revoke.empty(); write_permits(*writes)) {
    std::vector<Quiescence> revoked;
    for (const ClientId id : writes->revoke) revoked.push_back({id, quiet_by(id, now)});
    writes = &device_->resume(revoked);
  }
  next_step_ = writes->next;
  if (next_step_ < Time::max() && late_ > Nanos(0))
    next_step_ += Nanos(random_.between(0, late_.count()));
}

void Simulation::observe(Client& c, ClientObservation& seen, Time now) {
  if (c.meter.lag == Nanos(0)) {
    c.readings.push_back({c.busy - c.reported, now_});
    c.reported = c.busy;
  }
  const auto was_busy = [](const Reading& r) { return r.busy > Nanos(0); };
  if (std::any_of(c.readings.begin(), c.readings.end(), was_busy)) c.last_active = now;
  seen.client = c.share.id;
  seen.waiting = c.waits(now_) || (c.wanting && !c.behaviour.works);
  seen.want = c.wanting || c.running;
  seen.resting = c.rests(now_);
  seen.readings = std::exchange(c.readings, {});
  seen.last_active = c.last_active;
  seen.lag = silence(c);
  seen.quiet_by = device_->find(c.share.id)->quiescing ? quiet_by(c.share.id, now) : Time::max();
  seen.due = c.due;
  seen.ended = std::exchange(c.ended_iterations, {});
}

// After so long without a report a client has used nothing, if no report can be lost.
Nanos Simulation::silence(const Client& c) const {
  const bool loses_reports = c.meter.lag > Nanos(0) && c.meter.loss > 0;
  return loses_reports ? kForGood : kSilence + c.meter.lag + clock_back_;
}

Time Simulation::quiet_by(ClientId id, Time now) const {
  const Client& c = clients_.at(id);
  if (c.rests(now_)) return now;
  return std::max(device_->find(id)->revoked_at, c.last_active) + silence(c);
}

void Simulation::write_permits(const PermitWrites& writes) {
  revocations_ += static_cast<int64_t>(writes.revoke.size());
  grants_ += static_cast<int64_t>(writes.grant.size());
  for (const ClientId id : writes.revoke) clients_.at(id).permitted = false;
  for (const Grant& g : writes.grant) {
    Client& c = clients_.at(g.client);
    c.permitted = true;
    c.budget = g.budget;
    c.valid_until = g.valid_until;
    c.spent = Nanos(0);
    c.held_sm = c.share.sm;
  }
  for (const auto& [id, contended] : writes.contended) clients_.at(id).contended = contended;
}

void Simulation::start_operators() {
  for (auto& [id, c] : clients_) {
    if (c.may_run(now_) || !c.running) c.ended = Time::max();
    if (c.running && !c.may_run(now_) && c.ended == Time::max()) c.ended = now_;
    if (!c.wanting || !c.behaviour.works || c.running || !c.may_run(now_) || c.pause_end > now_)
      continue;
    c.running = true;
    if (c.ops_done == 0) c.iteration_began = now_;
    c.op_left = Nanos(random_.between(c.behaviour.op_min.count(), c.behaviour.op_max.count()));
  }
}

// An operator without an end is one that was stopped, and computes nothing.
void Simulation::share_device() {
  int sm = 0;
  for (const auto& [id, c] : clients_)
    if (c.running && c.op_left != kNever) sm += c.held_sm.permille;
  crowd_ = std::max(sm, 1000);
  for (auto& [id, c] : clients_)
    c.op_end = c.op_left == kNever ? Time::max() : now_ + (c.op_left * crowd_ + Nanos(999)) / 1000;
}

void Simulation::check_holders() {
  int sm = 0;
  for (const auto& [id, c] : clients_) {
    // The host may have seen the end earlier than it was, by its clock's error and the meter's.
    const Nanos early = clock_back_ + kReportEvery + c.meter.lag;
    const bool given_up = c.ended < now_ && c.ended + config_.drain_bound - early <= now_;
    if (c.may_run(now_) || (c.running && !given_up)) sm += c.held_sm.permille;
  }
  highest_sm_ = std::max(highest_sm_, sm);
}

void Simulation::run_script() {
  while (!script_.empty() && script_.begin()->first <= now_) {
    const auto what = std::move(script_.begin()->second);
    script_.erase(script_.begin());
    what();
  }
}

// The clients and the host.
void Simulation::act() {
  take_requests();
  notice_ends();
  report();
  run_script();
  if (paused()) return;
  ring_doorbells();
  if (step_due_ || next_step_ <= now_) step();
  start_operators();
  ring_doorbells();
}

void Simulation::run(Nanos until) {
  while (true) {
    end_operators();
    if (!paused()) act();
    check_holders();
    share_device();
    const Time next = next_event();
    if (next > start_ + until) break;
    SLUICE_CHECK(next > now_ || step_due_ || next == now_, "time stands still");
    pass_until(next);
  }
}

}  // namespace sluice::policy
