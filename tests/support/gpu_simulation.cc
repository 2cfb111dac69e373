#include "tests/support/gpu_simulation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "arbiters/shares.h"
#include "base/check.h"
#include "enforce/hints.h"
#include "enforce/page.h"
#include "gpu/meter_cuda.h"

namespace sluice::policy {

using emulator::DeviceModel;
using emulator::GpuProgram;
using emulator::HostLaunch;
using emulator::HostRun;

namespace {
constexpr Nanos kLag = Millis(12);      // a client silent for so long has stopped
constexpr Nanos kLook = Micros(100);    // between polls of a client that drains
constexpr size_t kDriversQueue = 1000;  // launches; then the driver blocks
constexpr double kJitter = 0.08;        // of a host's gaps, from iteration to iteration
constexpr node::ProcessIdentity kProcess{.pid = 1, .start_time = 1};

// A kernel, or a graph of several, as the hook knows it: what makes a difference to its cost.
uint64_t key_of(const HostLaunch& launch) {
  const emulator::Kernel& first = launch.kernels.front();
  const auto function = (static_cast<uintptr_t>(first.function) + 1) << 8;
  if (launch.kernels.size() > 1) return hook::graph_key(reinterpret_cast<const void*>(&launch));
  return hook::kernel_key(reinterpret_cast<const void*>(function), first.blocks, 1, 1);
}
}  // namespace

struct GpuSimulation::Client {
  enum class At { kRest, kWork, kGate, kBound, kSync, kStopped };
  struct Pending {
    emulator::Ticket end;
    Nanos cost, reported;
  };

  explicit Client(uint64_t seed) : chance(seed), arrivals(~seed) {}

  ShareClient share;
  GpuProgram program;
  uint32_t number = 0, stream = 0;
  Random chance, arrivals;  // the same whatever else runs: runs can be compared request by request

  At at = At::kRest;
  int64_t generation = 0;  // of its next action
  const HostRun* run = nullptr;
  size_t next = 0;
  double jitter = 1;
  Nanos began{0}, arrived{0}, began_to_wait{0};
  std::deque<Nanos> requests;  // arrivals of those that wait
  std::deque<Pending> pending;
  Nanos in_flight{0};  // as reported

  Progress reported;
  Nanos lease{0}, observed_at{0};
  Nanos changed_at{0};
  std::vector<Iteration> ended;
  bool contended = false;
  Budget budget;
  std::optional<Grant> grant;
  Nanos granted_from{0};  // submitted then

  double done = 0;  // seconds
  double sampled = 0;
  std::vector<double> by_second;
  std::vector<Nanos> latencies;
  int64_t iterations = 0;

  // Under the hook: its half, and the daemon's.
  std::unique_ptr<hook::HookedHost> hook;
  node::CudaMeter meter{nullptr, time(Nanos(0))};
  node::Hints hints{time(Nanos(0))};

  bool iterates() const { return share.has_slo && !program.endless; }
};

GpuSimulation::GpuSimulation(std::string_view arbiter, const emulator::DeviceSpec& device,
                             uint64_t seed, Hosts hosts)
    : device_(std::make_unique<DeviceModel>()), seed_(seed), hosts_(hosts) {
  device_->reset(device, 0);
  if (arbiter.empty()) return;
  auto made = make_arbiter(arbiter, {.side_by_side = device.shared});
  SLUICE_CHECK(made.ok(), made.error().message);
  hosted_.emplace(std::move(*made), HostedDevice::Budgets::kWatched);
}

GpuSimulation::~GpuSimulation() = default;

// --- clients -------------------------------------------------------------------------------------

void GpuSimulation::add(const ShareClient& share, const GpuProgram& program) {
  if (hosted_) {
    const auto admitted = hosted_->admit(share, time(now_));
    SLUICE_CHECK(admitted.ok(), admitted.error().message);
    next_step_ = now_;
  }
  auto made = std::make_unique<Client>(seed_ * 1000 + share.id);
  Client& c = *made;
  c.share = share;
  c.program = program;
  const uint32_t sms = device_->spec().sms;
  if (device_->spec().shared)
    emulator::set_costs(c.program,
                        std::max(1U, sms * static_cast<uint32_t>(share.sm.permille) / 1000));
  c.number = device_->add_client(share.id, static_cast<uint32_t>(share.sm.permille));
  c.stream = device_->open_stream(c.number, 0, emulator::StreamKind::kNonBlocking);
  c.by_second.resize(now_ / Seconds(1));
  if (hosted_ && hosts_ == Hosts::kHooked) {
    hook::HookedHost::World& world = *this;
    c.hook = std::make_unique<hook::HookedHost>(world, *device_, c.number, c.stream, share.id);
    c.hook->permit.slo_ns = c.iterates() ? Millis(10).count() : 0;
    c.meter.add_process(kProcess);
  }
  clients_[share.id] = std::move(made);
  if (program.requests_per_second > 0) {
    arrive(c);
  } else if (program.endless) {
    c.run = &c.program.runs[0];
    c.at = Client::At::kWork;
    host_at(c, now_ + Nanos(c.chance.between(0, 100'000)));
  } else {
    begin_iteration(c);
  }
}

void GpuSimulation::change(const ShareClient& share) {
  const auto admitted = hosted_->admit(share, time(now_));
  SLUICE_CHECK(admitted.ok(), admitted.error().message);
  client(share.id).share = share;
  next_step_ = now_;
}

void GpuSimulation::kill(ClientId id) {
  Client& c = client(id);
  device_->abort_client(c.number);
  launched_ = true;
  c.pending.clear();
  stop(id);
  if (!hosted_) return;
  hosted_->leave(id, time(now_));
  hosted_->remove(id, time(now_));
  next_step_ = now_;
}

void GpuSimulation::stop(ClientId id) {
  Client& c = client(id);
  ++c.generation;
  c.at = Client::At::kStopped;
  if (c.hook) c.hook->stop();
}

void GpuSimulation::at(Nanos when, std::function<void()> what) {
  events_.push({when, numbers_++, std::move(what)});
}

void GpuSimulation::host_at(Client& c, Nanos when) {
  const int64_t generation = ++c.generation;
  at(when, [this, &c, generation] {
    if (c.generation == generation) host(c);
  });
}

// --- hosts ---------------------------------------------------------------------------------------

void GpuSimulation::arrive(Client& c) {
  const double pause = c.arrivals.exponential(1 / c.program.requests_per_second);
  at(now_ + from_seconds(pause), [this, &c] {
    if (c.at == Client::At::kStopped) return;
    c.requests.push_back(now_);
    if (c.at == Client::At::kRest) begin_iteration(c);
    arrive(c);
  });
}

void GpuSimulation::begin_iteration(Client& c) {
  if (!c.requests.empty()) {
    c.arrived = c.requests.front();
    c.requests.pop_front();
  } else {
    c.arrived = now_;
  }
  c.run = &c.program.runs[c.chance.below(c.program.runs.size())];
  c.next = 0;
  c.began = now_;
  c.jitter = std::exp(kJitter * c.chance.normal());
  c.at = Client::At::kWork;
  const bool open = c.reported.begun != Time::max();
  if (c.iterates() && !open && !c.hook) {
    c.reported.begun = time(now_);
    c.reported.submitted_before = c.reported.submitted;
    notify(c);
  }
  host_at(c, now_ + from_seconds(seconds(c.run->front().gap) * c.jitter));
}

void GpuSimulation::end_iteration(Client& c) {
  ++c.iterations;
  c.latencies.push_back(now_ - c.arrived);
  constexpr int kHonest = 50;
  if (c.iterates() && (!c.program.never_ends_iterations || c.iterations < kHonest)) {
    c.reported.begun = Time::max();
    c.ended.push_back({now_ - c.began, 0});
  }
  c.at = Client::At::kRest;
  if (c.program.requests_per_second == 0 || !c.requests.empty()) return begin_iteration(c);
  if (!c.hook && (c.contended || c.iterates())) notify(c);
}

bool GpuSimulation::passes(Client& c, Nanos cost) {
  if (!hosted_) {
    if (c.pending.size() < kDriversQueue) return true;
    c.at = Client::At::kBound;
    return false;
  }
  Nanos bound = SharesArbiter::kInFlight;
  bool open = c.reported.submitted < c.budget.allowed && !c.budget.held;
  if (c.grant) {
    open = time(now_) < c.grant->valid_until &&
           c.reported.submitted - c.granted_from < c.grant->budget;
  } else if (open) {
    const Nanos left = c.budget.allowed - c.reported.submitted;
    bound = std::min(c.budget.in_flight, std::max(left, Budget::kLeastInFlight));
  }
  if (!open) {
    c.at = Client::At::kGate;
    c.reported.waits_for_budget = true;
    notify(c);
    return false;
  }
  if (c.in_flight == Nanos(0) || c.in_flight + cost <= bound) return true;
  c.at = Client::At::kBound;
  c.reported.waits_for_device = true;
  return false;
}

// Whether an endless program pauses now.
bool GpuSimulation::rests(Client& c) {
  if (!c.program.endless || c.program.pause == Nanos(0)) return false;
  const Nanos cycle = c.program.work + c.program.pause, phase = now_ % cycle;
  c.at = phase < c.program.work ? Client::At::kWork : Client::At::kRest;
  if (c.at == Client::At::kWork) return false;
  if (c.contended && !c.hook) notify(c);
  host_at(c, now_ + cycle - phase);
  return true;
}

// Each call of the hook's may take a while; the host goes on behind it.
void GpuSimulation::host_under_hook(Client& c) {
  if (c.at == Client::At::kSync) {
    const Nanos since = c.began_to_wait;
    c.hook->usage.awaiting = 0;
    return c.hook->run([&c, since] { c.hook->has_waited(since); },
                       [this, &c] { end_iteration(c); });
  }
  if (rests(c)) return;
  if (c.next == c.run->size()) {
    c.at = Client::At::kSync;
    c.hook->usage.awaiting = 1;
    c.began_to_wait = now_;
    if (c.pending.empty()) host_at(c, now_ + kSynced);
    return;
  }
  const HostLaunch& next = (*c.run)[c.next];
  c.hook->run(
      [this, &c, &next] { c.hook->launch(key_of(next), [this, &c, &next] { launch(c, next); }); },
      [this, &c] {
        if (!c.program.endless) ++c.next;
        if (c.next == c.run->size()) return host_at(c, now_ + kSync);
        const Nanos gap = from_seconds(seconds((*c.run)[c.next].gap) * c.jitter);
        host_at(c, now_ + std::max(gap - hook::HookedHost::kLaunch, Nanos(0)));
      });
}

void GpuSimulation::host(Client& c) {
  if (c.hook) return host_under_hook(c);
  c.reported.waits_for_budget = c.reported.waits_for_device = c.reported.waits_for_end = false;
  if (c.at == Client::At::kSync) return end_iteration(c);
  if (rests(c)) return;
  if (c.next == c.run->size()) {  // it waits for all that it launched
    c.at = Client::At::kSync;
    c.reported.waits_for_end = true;
    if (c.pending.empty()) host_at(c, now_ + kSynced);
    return;
  }
  const HostLaunch& next = (*c.run)[c.next];
  if (!passes(c, from_seconds(seconds(next.cost) * c.program.reported_cost))) return;
  c.at = Client::At::kWork;
  launch(c, next);
  if (!c.program.endless) ++c.next;
  if (c.next == c.run->size())
    host_at(c, now_ + kSync);
  else
    host_at(c, now_ + from_seconds(seconds((*c.run)[c.next].gap) * c.jitter));
}

void GpuSimulation::launch(Client& c, const HostLaunch& what) {
  for (const emulator::Kernel& kernel : what.kernels) device_->launch(c.stream, kernel);
  const Nanos reported = from_seconds(seconds(what.cost) * c.program.reported_cost);
  launched_ = true;
  c.pending.push_back({device_->end_of(c.stream), what.cost, reported});
  c.in_flight += reported;
  c.reported.submitted += reported;
  c.reported.host += from_seconds(seconds(what.gap) * c.jitter * c.program.reported_host);
  c.reported.longest =
      std::max(c.reported.longest, from_seconds(seconds(what.cost) * c.program.reported_longest));
  c.changed_at = now_;
}

void GpuSimulation::notice_ends() {
  for (auto& [id, owned] : clients_) {
    Client& c = *owned;
    bool ended = false;
    while (!c.pending.empty() && device_->reached(c.pending.front().end)) {
      const Client::Pending unit = c.pending.front();
      c.pending.pop_front();
      c.in_flight -= unit.reported;
      c.reported.finished += unit.reported;
      c.done += seconds(unit.cost);
      c.changed_at = now_;
      ended = true;
    }
    if (!ended) continue;
    if (c.at == Client::At::kBound)
      host_at(c, now_ + kRetry);
    else if (c.at == Client::At::kSync && c.pending.empty())
      host_at(c, now_ + kSynced);
  }
}

// --- the daemon ----------------------------------------------------------------------------------

void GpuSimulation::notify(Client& c) {
  if (!hosted_) return;
  hosted_->notify(c.share.id, time(now_));
  next_step_ = std::min(next_step_, now_ + kDoorbell);
}

void GpuSimulation::resume_at(hook::HookedHost& host, Nanos when) {
  const int64_t number = ++host.resumes;
  at(when, [&host, number] {
    if (host.resumes == number) host.resume();
  });
}

void GpuSimulation::rang(hook::HookedHost& host) {
  notify(client(host.number()));
}

// As the daemon does (enforce/arbiter_host_device.cc).
ClientObservation GpuSimulation::observe_pages(Client& c) {
  const sluice_usage_page& page = c.hook->usage;
  sluice_device_report said = sluice_device_report_read(&page, SLUICE_WIRE_VERSION);
  const auto scale = [](uint64_t& ns, double by) {
    ns = static_cast<uint64_t>(static_cast<double>(ns) * by);
  };
  for (uint64_t* ns : {&said.submitted_ns, &said.finished_ns}) scale(*ns, c.program.reported_cost);
  scale(said.host_ns, c.program.reported_host);
  scale(said.longest_ns, c.program.reported_longest);
  const Time now = time(now_);
  const bool resting = page.want == 0 || page.ack_seq == (c.hook->permit.seq | 1);
  c.meter.report(kProcess, said, now);
  ClientObservation seen{.client = c.share.id,
                         .waiting = page.waiting != 0,
                         .want = page.want != 0,
                         .resting = resting};
  if (const auto reading = c.meter.poll(now, resting)) seen.readings.push_back(*reading);
  seen.last_active = c.meter.last_active();
  seen.lag = c.meter.lag();
  const Time revoked_at = hosted_->find(c.share.id)->revoked_at;
  seen.quiet_by = c.meter.drained(now, revoked_at, resting) ? now : now + kLook;
  seen.progress = c.meter.progress();
  seen.progress.waits_for_budget = seen.waiting;
  const node::Hints::Told told = c.hints.hear({.due_ns = page.due_ns,
                                               .cycle_ns = page.cycle_ns,
                                               .iterations = page.iterations,
                                               .kind = page.kind,
                                               .begun_ns = page.begun_ns,
                                               .begun_submitted_ns = page.begun_submitted_ns},
                                              now);
  seen.due = told.due;
  if (told.cycle > Nanos(0)) seen.ended.push_back({told.cycle, told.kind});
  seen.progress.begun = told.begun;
  seen.progress.kind = told.last_kind;
  seen.progress.submitted_before = Nanos(told.begun_submitted);
  return seen;
}

ClientObservation GpuSimulation::observe(Client& c) {
  if (c.hook) return observe_pages(c);
  const bool stopped = c.at == Client::At::kStopped;
  if (!c.pending.empty()) c.changed_at = now_;
  const bool idle = c.at == Client::At::kRest && c.pending.empty();
  // Exclusive permits are charged the time for which they are held.
  if (c.grant || !c.pending.empty()) c.lease += now_ - c.observed_at;
  c.observed_at = now_;
  const Nanos leased = std::exchange(c.lease, Nanos(0));
  return {.client = c.share.id,
          .waiting = c.reported.waits_for_budget,
          .want = !idle,
          .resting = stopped || c.at == Client::At::kRest || c.at == Client::At::kGate,
          .readings = {{leased, time(now_)}},
          .last_active = time(c.changed_at),
          .lag = kLag,
          .quiet_by = time(c.pending.empty() ? now_ : now_ + kLook),
          .due = Time::max(),
          .ended = std::exchange(c.ended, {}),
          .progress = c.reported};
}

void GpuSimulation::step() {
  ++steps_;
  std::vector<ClientObservation> seen;
  for (auto& [id, owned] : clients_)
    if (hosted_->find(id) != nullptr) seen.push_back(observe(*owned));
  const PermitWrites* writes = &hosted_->step(time(now_), seen);
  for (write(*writes); !writes->revoke.empty(); write(*writes)) {
    std::vector<Quiescence> revoked;
    for (const ClientId id : writes->revoke)
      if (clients_.contains(id)) revoked.push_back({id, observe(client(id)).quiet_by});
    writes = &hosted_->resume(revoked);
  }
  next_step_ = writes->next == Time::max() ? Nanos::max() : writes->next - time(Nanos(0));
  if (hosts_ == Hosts::kHooked) write_neighbours();
}

void GpuSimulation::write_neighbours() {
  for (auto& [id, owned] : clients_) {
    const HostedDevice::Client* hosted = hosted_->find(id);
    if (hosted == nullptr) continue;
    hook::HookedHost& hook = *owned->hook;
    const sluice_time_alone alone{node::page_time(hosted->alone_since),
                                  hook::HookedHost::page_ns(now_)};
    sluice_say_alone(&hook.permit, &alone);
    hook.permit.flags =
        (hosted->contended ? SLUICE_CONTENDED : 0) | (hosted->beside ? SLUICE_BESIDE : 0);
    hook.see_pages();
  }
}

void GpuSimulation::write_grant(Client& c, Nanos more, Nanos in_flight, Time valid_until) {
  const auto really =
      static_cast<uint64_t>(static_cast<double>(more.count()) / c.program.reported_cost);
  const auto allowed = c.hook->usage.submitted_ns + really;
  sluice_permit_allow(&c.hook->permit, allowed, static_cast<uint64_t>(in_flight.count()),
                      node::page_time(valid_until), hook::HookedHost::page_ns(now_));
}

void GpuSimulation::write(const PermitWrites& writes) {
  for (const ClientId id : writes.revoke) {
    client(id).grant.reset();
    if (client(id).hook) sluice_permit_revoke(&client(id).hook->permit);
  }
  for (const Grant& grant : writes.grant) {
    Client& c = client(grant.client);
    c.grant = grant;
    c.granted_from = c.reported.submitted;
    if (c.hook) write_grant(c, grant.budget, Budget::kInFlight, grant.valid_until);
    wake(c);
  }
  for (const Budget& budget : writes.budgets) {
    Client& c = client(budget.client);
    c.budget = budget;
    if (c.hook && budget.held)
      sluice_permit_revoke(&c.hook->permit);
    else if (c.hook)
      write_grant(c, std::max(budget.allowed - hosted_->find(c.share.id)->submitted, Nanos(0)),
                  budget.in_flight, Time::max());
    if (budget.allowed > c.reported.submitted && !budget.held) wake(c);
  }
  for (const auto& [id, contended] : writes.contended) client(id).contended = contended;
}

void GpuSimulation::wake(Client& c) {
  if (c.at != Client::At::kGate) return;  // under the hook a futex wakes it
  c.at = Client::At::kWork;               // it is on its way
  host_at(c, now_ + kWake);
}

// --- time ----------------------------------------------------------------------------------------

void GpuSimulation::run(Nanos until) {
  for (;;) {
    Nanos next = std::min({next_step_, next_sample_, until});
    if (!events_.empty()) next = std::min(next, events_.top().at);
    if (const auto change = device_->next_change()) next = std::min(next, Nanos(*change));
    now_ = std::max(now_, next);
    device_->advance(now_.count());
    notice_ends();
    if (next_sample_ <= now_) sample();
    while (!events_.empty() && events_.top().at <= now_) {
      const auto act = events_.top().act;
      events_.pop();
      act();
    }
    if (hosted_ && next_step_ <= now_) step();
    if (std::exchange(launched_, false)) device_->advance(now_.count());
    if (now_ >= until) return;
  }
}

void GpuSimulation::sample() {
  for (auto& [id, c] : clients_) {
    const double all = used(id);
    c->by_second.push_back(all - std::exchange(c->sampled, all));
  }
  next_sample_ += Seconds(1);
}

double GpuSimulation::used(ClientId id) const {
  const Client& c = client(id);
  if (device_->spec().shared) return c.done;  // how much of a device it ran on is in its costs
  return static_cast<double>(device_->usage(c.number).busy_ns) / 1e9;
}

const std::vector<double>& GpuSimulation::used_by_second(ClientId id) const {
  return client(id).by_second;
}
const std::vector<Nanos>& GpuSimulation::latencies(ClientId id) const {
  return client(id).latencies;
}
int64_t GpuSimulation::iterations(ClientId id) const {
  return client(id).iterations;
}
bool GpuSimulation::queue_grows(ClientId id) const {
  return client(id).requests.size() > 50;
}
double GpuSimulation::idle() const {
  return 1000 - 1000.0 * static_cast<double>(device_->device_busy_ns()) /
                    static_cast<double>(std::max<int64_t>(now_.count(), 1));
}

}  // namespace sluice::policy
