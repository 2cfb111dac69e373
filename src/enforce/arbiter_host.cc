#include "enforce/arbiter_host.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/check.h"
#include "base/epoll.h"

namespace sluice::node {
namespace {

constexpr int kRealtimePriority = 10;  // above every SCHED_OTHER, below the kernel's own
constexpr size_t kMaxProcessesPerClient = 256;

// What an epoll event refers to: the kind in the highest byte, a process number below.
constexpr uint64_t kTimer = 1ull << 56, kCommand = 2ull << 56, kBell = 3ull << 56,
                   kDeath = 4ull << 56, kNumber = kTimer - 1;

bool clear(const Fd& fd) {
  uint64_t count;
  return read(fd.get(), &count, sizeof count) == sizeof count;
}

uint32_t millicores_of(int device_millicores, const policy::ShareClient& share) {
  if (device_millicores == 0) return 0;
  return std::max(device_millicores * share.sm.permille / 1000, 1);
}

bool start_realtime(std::thread& thread) {
  sched_param priority{};
  priority.sched_priority = kRealtimePriority;
  return pthread_setschedparam(thread.native_handle(), SCHED_FIFO, &priority) == 0;
}

}  // namespace

ArbiterHost::ArbiterHost(const Clock& clock, const HostConfig& config)
    : clock_(clock),
      config_(config),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      command_bell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  SLUICE_CHECK(epoll_.valid() && timer_.valid() && command_bell_.valid(), "out of descriptors");
  SLUICE_CHECK(epoll_hear(epoll_, timer_.get(), kTimer).ok() &&
                   epoll_hear(epoll_, command_bell_.get(), kCommand).ok(),
               "out of watches");
  thread_ = std::thread([this] { run(); });
  pthread_setname_np(thread_.native_handle(), "sluice-arbiter");
  realtime_ = config.realtime && start_realtime(thread_);
}

ArbiterHost::~ArbiterHost() {
  post([this] { stopping_ = true; });
  thread_.join();
  for (auto& [number, process] : processes_) close_pages(process);
}

// Closing is not enough. The client also holds the bell, and the giver of the pidfd may hold that.
// Epoll would go on reporting a descriptor that cannot be named any more, and the thread would
// spin.
void ArbiterHost::unwatch(const Fd& fd) {
  SLUICE_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd.get(), nullptr) == 0, "epoll_ctl");
}

void ArbiterHost::post(std::function<void()> command) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
  }
  eventfd_write(command_bell_.get(), 1);
}

// --- commands ------------------------------------------------------------------------------------

DeviceNumber ArbiterHost::add_device(std::unique_ptr<policy::Arbiter> arbiter,
                                     const policy::ArbiterConfig& config, int millicores) {
  return call([&] {
    using Budgets = policy::HostedDevice::Budgets;
    const Budgets budgets = millicores == 0 ? Budgets::kWatched : Budgets::kCountedByClients;
    devices_.push_back({.hosted = policy::HostedDevice(std::move(arbiter), budgets),
                        .config = config,
                        .millicores = millicores,
                        .clients = {},
                        .observations = {},
                        .revoked = {}});
    return static_cast<DeviceNumber>(devices_.size() - 1);
  });
}

void ArbiterHost::set_arbiter(DeviceNumber number, std::unique_ptr<policy::Arbiter> arbiter,
                              const policy::ArbiterConfig& config) {
  call([&] {
    SLUICE_CHECK(number < devices_.size(), "no such device");
    Device& device = devices_[number];
    device.hosted.run(std::move(arbiter));
    device.config = config;
    step(device);
  });
}

ArbiterHost::Client* ArbiterHost::find(ClientRef ref) {
  if (ref.device >= devices_.size()) return nullptr;
  auto& clients = devices_[ref.device].clients;
  const auto at = clients.find(ref.client);
  return at != clients.end() ? &at->second : nullptr;
}

Result<void> ArbiterHost::admit(DeviceNumber number, const policy::ShareClient& share,
                                std::unique_ptr<Meter> meter) {
  return call([&]() -> Result<void> {
    SLUICE_CHECK(number < devices_.size(), "no such device");
    Device& device = devices_[number];
    if (find({number, share.id}) != nullptr)
      return Error{ErrorKind::kConflict,
                   "client " + std::to_string(share.id) + " is there already"};
    SLUICE_TRY(device.hosted.admit(share, clock_.now()));
    Client& client = device.clients[share.id];
    client.share = share;
    client.meter = std::move(meter);
    step(device);
    return {};
  });
}

Result<void> ArbiterHost::change_share(DeviceNumber number, const policy::ShareClient& share) {
  return call([&]() -> Result<void> {
    Client* client = find({number, share.id});
    if (client == nullptr)
      return Error{ErrorKind::kNotFound, "no client " + std::to_string(share.id)};
    Device& device = devices_[number];
    step(device);  // use so far counts at the old size
    SLUICE_TRY(device.hosted.admit(share, clock_.now()));
    client->share = share;
    if (device.millicores != 0)
      client->meter->set_millicores(static_cast<int>(millicores_of(device.millicores, share)));
    for (const ProcessNumber p : client->processes) write_slice(device, *client, processes_.at(p));
    step(device);
    return {};
  });
}

void ArbiterHost::remove(ClientRef ref) {
  call([&] {
    Client* client = find(ref);
    if (client == nullptr) return;
    Device& device = devices_[ref.device];
    const Time now = clock_.now();
    for (const ProcessNumber p : std::vector(client->processes)) drop_process(p, now);
    device.clients.erase(ref.client);
    device.hosted.remove(ref.client, now);
    step(device);
  });
}

Result<ClientState> ArbiterHost::state(ClientRef ref) {
  return call([&]() -> Result<ClientState> {
    Client* client = find(ref);
    if (client == nullptr)
      return Error{ErrorKind::kNotFound, "no client " + std::to_string(ref.client)};
    Device& device = devices_[ref.device];
    step(device);
    return state_of(device, ref.client, *client);
  });
}

std::map<ClientRef, ClientState> ArbiterHost::states() {
  return call([&] {
    std::map<ClientRef, ClientState> all;
    for (DeviceNumber number = 0; number < devices_.size(); ++number) {
      Device& device = devices_[number];
      step(device);
      for (const auto& [id, client] : device.clients)
        all[{number, id}] = state_of(device, id, client);
    }
    return all;
  });
}

ClientState ArbiterHost::state_of(const Device& device, policy::ClientId id,
                                  const Client& client) const {
  const policy::HostedDevice::Client& hosted = *device.hosted.find(id);
  return {.used = hosted.used,
          .ungated = client.meter->ungated(),
          .granted = hosted.may_launch() && !client.processes.empty(),
          .wanting = hosted.wanting,
          .processes = static_cast<int>(client.processes.size())};
}

Result<Attachment> ArbiterHost::attach(ClientRef ref, const ProcessIdentity& process, Fd pidfd,
                                       uint32_t version) {
  // System calls that need not run on the thread.
  SLUICE_ASSIGN(made, Pages::make(config_.generation, version));
  return call([&] {
    return attach_now(ref, process, std::move(pidfd), std::move(made.first),
                      std::move(made.second));
  });
}

Result<Attachment> ArbiterHost::attach_now(ClientRef ref, const ProcessIdentity& id, Fd pidfd,
                                           Pages pages, PageFds fds) {
  Client* client = find(ref);
  if (client == nullptr)
    return Error{ErrorKind::kNotFound, "no client " + std::to_string(ref.client)};
  const Time now = clock_.now();
  for (const ProcessNumber p : std::vector(client->processes))
    if (processes_.at(p).id == id) drop_process(p, now);
  if (client->processes.size() >= kMaxProcessesPerClient)
    return Error{ErrorKind::kExhausted, "this client has " +
                                            std::to_string(kMaxProcessesPerClient) +
                                            " processes; no more are served"};
  Fd bell(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  Fd clients_bell(fcntl(bell.get(), F_DUPFD_CLOEXEC, 0));
  if (!clients_bell.valid() || !pidfd.valid())
    return Error{ErrorKind::kExhausted, "the daemon is out of descriptors"};

  const ProcessNumber number = ++last_process_;
  SLUICE_TRY(epoll_hear(epoll_, bell.get(), kBell | number));
  SLUICE_TRY(epoll_hear(epoll_, pidfd.get(), kDeath | number));
  Process& process = processes_
                         .emplace(number, Process{ref, id, std::move(pidfd), std::move(bell),
                                                  std::move(pages), Hints(now)})
                         .first->second;
  SLUICE_STEP("serve: entered");
  process.not_alone_until = now;  // until then no look has covered all
  client->processes.push_back(number);
  client->meter->add_process(id);
  const Device& device = devices_[ref.device];
  write_slice(device, *client, process);
  __atomic_store_n(&process.pages.permit().heartbeat_ns, page_time(now), __ATOMIC_RELAXED);
  const policy::HostedDevice::Client& hosted = *device.hosted.find(ref.client);
  write_flags(process, hosted.contended, hosted.beside);
  if (hosted.grant)
    write_grant(device, *hosted.grant, hosted.grant->budget - hosted.spent, process, now);
  write_budget(hosted, process, now);
  return Attachment{number, std::move(fds), std::move(clients_bell)};
}

void ArbiterHost::detach(ProcessNumber process) {
  call([&] { drop_process(process, clock_.now()); });
}

Nanos ArbiterHost::watch(ClientRef ref, pid_t pid) {
  return call([&] {
    if (find(ref) == nullptr) return Nanos(0);
    step(devices_[ref.device]);  // reads what it has reported by now
    Meter& meter = *find(ref)->meter;
    const Nanos before = meter.ungated();
    meter.watch(pid, clock_.now());
    if (meter.ungated() > before) step(devices_[ref.device]);
    return meter.ungated();
  });
}

// --- the thread ----------------------------------------------------------------------------------

void ArbiterHost::run() {
  while (!stopping_) {
    wait();
    Time now = clock_.now();
    if (now >= next_beat_) beat(now);
    for (Device& device : devices_)
      if (device.next <= now) step(device);
  }
}

void ArbiterHost::wait() {
  Time until = next_beat_;
  for (const Device& device : devices_) until = std::min(until, device.next);
  const Nanos at = until.time_since_epoch();
  const itimerspec alarm{
      .it_interval = {},
      .it_value = {.tv_sec = at / Seconds(1), .tv_nsec = at % Seconds(1) / Nanos(1)}};
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &alarm, nullptr);

  std::array<epoll_event, 64> events;
  const int n = epoll_wait(epoll_.get(), events.data(), events.size(), -1);
  const Time now = clock_.now();
  for (int i = 0; i < n; ++i) {
    const ProcessNumber number = events[i].data.u64 & kNumber;
    switch (events[i].data.u64 & ~kNumber) {
      case kTimer:
        clear(timer_);
        break;
      case kCommand:
        run_commands();
        break;
      case kBell:
        on_bell(number, now);
        break;
      case kDeath:
        drop_process(number, now);
        break;
    }
  }
}

void ArbiterHost::run_commands() {
  clear(command_bell_);
  std::deque<std::function<void()>> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(commands_);
  }
  for (const auto& command : commands) command();
}

void ArbiterHost::on_bell(ProcessNumber number, Time now) {
  const auto at = processes_.find(number);
  if (at == processes_.end()) return;
  Process& process = at->second;
  clear(process.bell);
  Device& device = devices_[process.client.device];
  device.hosted.notify(process.client.client, now);
  device.next = now;
  if (++process.bells < config_.bells_per_heartbeat) return;
  epoll_event deaf{.events = 0, .data = {.u64 = kBell | number}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, process.bell.get(), &deaf);
}

void ArbiterHost::beat(Time now) {
  next_beat_ = now + config_.heartbeat;
  for (auto& [number, process] : processes_) {
    __atomic_store_n(&process.pages.permit().heartbeat_ns, page_time(now), __ATOMIC_RELAXED);
    if (std::exchange(process.bells, 0) < config_.bells_per_heartbeat) continue;
    epoll_event hear{.events = EPOLLIN, .data = {.u64 = kBell | number}};
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, process.bell.get(), &hear);
  }
}

// --- pages ---------------------------------------------------------------------------------------

void ArbiterHost::write_slice(const Device& device, const Client& client, Process& process) {
  sluice_permit_page& page = process.pages.permit();
  const auto set = [](uint32_t& word, auto value) {
    __atomic_store_n(&word, static_cast<uint32_t>(value), __ATOMIC_RELAXED);
  };
  __atomic_store_n(&page.window_ns, device.config.window.count(), __ATOMIC_RELAXED);
  set(page.sm, client.share.sm.permille);
  set(page.request, client.share.quota.request.permille);
  set(page.limit, client.share.quota.limit.permille);
  __atomic_store_n(&page.slo_ns, client.share.slo.count(), __ATOMIC_RELAXED);
  set(page.millicores, millicores_of(device.millicores, client.share));
}

void ArbiterHost::write_grant(const Device& device, const policy::Grant& grant, Nanos budget,
                              Process& process, Time now) {
  sluice_permit_page& page = process.pages.permit();
  const auto more = static_cast<uint64_t>(std::max(budget, Nanos(0)).count());
  if (device.millicores != 0 || !process.pages.has_totals())
    sluice_permit_grant(&page, more, page_time(grant.valid_until), page_time(now));
  else
    sluice_permit_allow(&page, process.said.submitted_ns + more, policy::Budget::kInFlight.count(),
                        page_time(grant.valid_until), page_time(now));
  process.pages.wake();
}

// What the client may submit beyond what it had at the last poll, each of its processes may: what
// they submit together beyond it is debt. A process of version 1 gets it as one grant, which begins
// when it is seen: so only one that has none, or has used it up, gets another.
void ArbiterHost::write_budget(const policy::HostedDevice::Client& hosted, Process& process,
                               Time now) {
  const policy::Budget& budget = hosted.budget;
  if (budget.in_flight == Nanos(0)) return;  // of an arbiter that grants
  sluice_permit_page& page = process.pages.permit();
  const auto more =
      static_cast<uint64_t>(std::max(budget.allowed - hosted.submitted, Nanos(0)).count());
  const bool granted = process.pages.seq() % 2 == 0;
  if (budget.held) {
    if (granted) sluice_permit_revoke(&page);
    return;
  }
  if (process.pages.has_totals()) {
    sluice_permit_allow(&page, process.said.submitted_ns + more, budget.in_flight.count(),
                        SLUICE_PARKED, page_time(now));
  } else if (more != 0 && (!granted || process.pages.usage().waiting)) {
    sluice_permit_grant(&page, more, SLUICE_PARKED, page_time(now));
  } else {
    return;
  }
  process.pages.wake();
}

void ArbiterHost::write_flags(Process& process, bool contended, bool beside) {
  process.contended = contended;
  process.beside = beside;
  __atomic_store_n(&process.pages.permit().flags,
                   (contended ? SLUICE_CONTENDED : 0) | (beside ? SLUICE_BESIDE : 0),
                   __ATOMIC_SEQ_CST);
}

void ArbiterHost::close_pages(Process& process) {
  sluice_permit_page& page = process.pages.permit();
  __atomic_or_fetch(&page.flags, SLUICE_CLOSED, __ATOMIC_SEQ_CST);
  sluice_permit_revoke(&page);
  process.pages.wake();
}

void ArbiterHost::drop_process(ProcessNumber number, Time now) {
  const auto at = processes_.find(number);
  if (at == processes_.end()) return;
  Process& process = at->second;
  unwatch(process.pidfd);
  unwatch(process.bell);
  close_pages(process);
  SLUICE_STEP("drop: closed");
  Client& client = *find(process.client);
  client.meter->report(process.id, process.pages.device_report(), now);  // its last report
  client.meter->remove_process(process.id);
  std::erase(client.processes, number);
  Device& device = devices_[process.client.device];
  if (client.processes.empty()) {  // nothing is in flight: the next poll says so
    device.hosted.leave(process.client.client, now);
  }
  device.next = now;
  processes_.erase(at);
  SLUICE_STEP("drop: forgotten");
}

}  // namespace sluice::node
