#include "tests/support/testbed.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <chrono>
#include <fstream>
#include <new>
#include <sstream>

#include "base/random.h"
#include "enforce/meter_cpu.h"

namespace sluice::bench {
namespace {

int last_core() {
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof allowed, &allowed);
  int last = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed)) last = core;
  return last;
}

void stay_on(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  sched_setaffinity(0, sizeof one, &one);
}

uint64_t mono() {
  return sluice_clock(CLOCK_MONOTONIC);
}

void nap(Nanos t) {
  const timespec span{.tv_sec = t / Seconds(1), .tv_nsec = t % Seconds(1) / Nanos(1)};
  nanosleep(&span, nullptr);
}

// The life of a client process.
class ClientLife {
 public:
  ClientLife(const std::string& socket, Nanos unit, uint64_t seed, Progress& progress)
      : gate_{.socket_path = socket.c_str()}, unit_(unit), random_(seed), progress_(progress) {}

  [[noreturn]] void live(Load load) {
    while (!progress_.go) nap(Millis(1));
    switch (load) {
      case Load::kGreedy:
        for (;;) unit();
      case Load::kIdle:
        idle();
      case Load::kBursty:
        bursty();
      case Load::kReportsZero:
        reports_zero();
      case Load::kLies:
        lies();
      case Load::kUngated:
        for (;;) do_work();
    }
    _exit(0);
  }

 private:
  void do_work() {
    work_for(unit_);
    ++progress_.units;
  }
  void pass() {
    progress_.asked_ns = mono();
    sluice_gate_pass(&gate_, &mine_);
    progress_.passed_ns = mono();
    if (progress_.units % 16 == 0) progress_.gate = sluice_gate_state(&gate_);
  }
  void unit() {
    pass();
    do_work();
  }

  [[noreturn]] void idle() {
    pass();
    progress_.gate = sluice_gate_state(&gate_);
    sluice_gate_idle_begin(mine_);
    for (;;) nap(Seconds(1));
  }
  [[noreturn]] void bursty() {
    for (;;) {
      const uint64_t end = mono() + static_cast<uint64_t>(random_.exponential(30e6));
      while (mono() < end) unit();
      sluice_gate_idle_begin(mine_);
      nap(Nanos(static_cast<int64_t>(random_.exponential(50e6))));
    }
  }
  [[noreturn]] void reports_zero() {
    for (;;) {
      unit();
      const sluice_attachment* at = gate_.process->current;
      if (at == nullptr) continue;
      auto* words = reinterpret_cast<uint32_t*>(at->usage);
      for (size_t i = 16; i < 40; ++i) __atomic_store_n(&words[i], 0u, __ATOMIC_SEQ_CST);
    }
  }
  [[noreturn]] void lies() {
    const sluice_attachment* at = nullptr;
    do {  // on a busy machine the daemon answers late
      pass();
      at = gate_.process->current;
    } while (at == nullptr);
    progress_.gate = sluice_gate_state(&gate_);
    for (;;) {
      __atomic_store_n(&at->usage->want, 1u, __ATOMIC_SEQ_CST);
      __atomic_store_n(&at->usage->waiting, 1u, __ATOMIC_SEQ_CST);
      if (const uint32_t seq = sluice_seq(at->permit); seq & 1) {
        sluice_permit_wait(at->permit, seq, 1'000'000);
      } else {
        do_work();
      }
    }
  }

  sluice_gate gate_;
  sluice_thread* mine_ = nullptr;
  const Nanos unit_;
  Random random_;
  Progress& progress_;
};

}  // namespace

void work_for(Nanos cpu) {
  const auto start = sluice_clock(CLOCK_THREAD_CPUTIME_ID);
  while (Nanos(sluice_clock(CLOCK_THREAD_CPUTIME_ID) - start) < cpu) {
  }
}

Testbed::Testbed(const TestbedConfig& config)
    : config_([](TestbedConfig c) {
        if (c.core < 0) c.core = last_core();
        c.windows.pace = node::pace_on(c.millicores);
        return c;
      }(config)),
      name_("sluice-bed-" + std::to_string(getpid())),
      socket_("/tmp/" + name_ + ".sock") {
  if (config.backstop) cgroups_ = node::Cgroups::detect(name_);
  if (has_backstop())
    if (auto all = cgroups_->open(""); all.ok()) (void)all->set_weight(node::kDevicesWeight);
  host_ = std::make_unique<node::ArbiterHost>(clock_, node::HostConfig{});
  auto arbiter = policy::make_arbiter(config.arbiter, config_.windows);
  SLUICE_CHECK(arbiter.ok(), arbiter.error().message);
  host_->add_device(std::move(*arbiter), config_.windows, config_.millicores);
  auto lookup = [this](const node::Peer& peer, uint32_t) -> Result<node::Placement> {
    const std::lock_guard lock(mutex_);
    const auto at = known_.find(peer.process.pid);
    if (at == known_.end()) return Error{ErrorKind::kNotFound, "this process holds no slice here"};
    return node::Placement{host_.get(), {0, at->second}};
  };
  auto server = node::PermitServer::start({.path = socket_}, clock_, lookup);
  SLUICE_CHECK(server.ok(), server.error().message);
  server_ = std::move(*server);
}

Testbed::~Testbed() {
  while (!clients_.empty()) stop(clients_.begin()->first);
  server_.reset();
  host_.reset();
  unlink(socket_.c_str());
  if (has_backstop()) {
    if (auto all = cgroups_->open(""); all.ok()) (void)all->remove();
  }
}

int Testbed::end_of_others() const {
  int end = 0;
  for (const auto& [id, c] : clients_)
    end = std::max(end, (c.share.position.time_begin + c.share.quota.request).permille);
  return end;
}

policy::ClientId Testbed::start(Load load, int request, int limit, std::optional<int> begin) {
  const policy::ClientId id = ++last_id_;
  Client client{.share = {.id = id,
                          .sm = kWhole,
                          .quota = {{request}, {limit}},
                          .position = {kNone, {begin.value_or(end_of_others())}}}};
  void* memory =
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  SLUICE_CHECK(memory != MAP_FAILED, "mmap");
  client.progress = new (memory) Progress{};
  client.pid = fork();
  if (client.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    stay_on(config_.core);
    ClientLife(socket_, config_.operator_time, id, *client.progress).live(load);
  }
  std::unique_ptr<node::CpuCounter> counter = std::make_unique<node::ProcessCounter>();
  if (has_backstop()) {
    auto group = cgroups_->open("client-" + std::to_string(id));
    SLUICE_CHECK(group.ok(), group.error().message);
    const Result<void> added = group->add(client.pid);
    SLUICE_CHECK(added.ok(), added.error().message);
    client.group = std::move(*group);
    const Result<void> held = hold(client);
    SLUICE_CHECK(held.ok(), held.error().message);
    auto kernels = node::CgroupCounter::open(client.group->usage_file());
    SLUICE_CHECK(kernels.ok(), kernels.error().message);
    counter = std::move(*kernels);
  }
  const Result<void> admitted = host_->admit(
      0, client.share,
      std::make_unique<node::CpuMeter>(std::move(counter), config_.millicores, clock_.now()));
  SLUICE_CHECK(admitted.ok(), admitted.error().message);
  {
    const std::lock_guard lock(mutex_);
    known_[client.pid] = id;
  }
  client.progress->go = true;
  clients_.emplace(id, std::move(client));
  return id;
}

void Testbed::stop(policy::ClientId id) {
  Client& client = clients_.at(id);
  host_->remove({0, id});
  kill(client.pid, SIGKILL);
  waitpid(client.pid, nullptr, 0);
  {
    const std::lock_guard lock(mutex_);
    known_.erase(client.pid);
  }
  if (client.group) {
    for (int i = 0; i < 1000 && !client.group->remove().ok(); ++i) nap(Millis(1));
  }
  munmap(client.progress, sizeof(Progress));
  clients_.erase(id);
}

Result<void> Testbed::resize(policy::ClientId id, int request, int limit) {
  Client& client = clients_.at(id);
  policy::ShareClient share = client.share;
  share.quota = {{request}, {limit}};
  SLUICE_TRY(host_->change_share(0, share));
  client.share = share;
  return client.group ? hold(client) : Result<void>();
}

// By the kernel's quota, as the node daemon does.
Result<void> Testbed::hold(Client& client) {
  const Slice slice{.sm = kWhole, .quota = client.share.quota};
  const auto quota = client.quota.ask(
      node::backstop_millicores(slice, config_.millicores, config_.quota), clock_.now());
  return quota ? client.group->set_quota(*quota, config_.quota.period) : Result<void>();
}

Nanos Testbed::used(policy::ClientId id) const {
  const Client& client = clients_.at(id);
  if (client.group) {
    auto counter = node::CgroupCounter::open(client.group->usage_file());
    return counter.ok() ? (*counter)->read() : Nanos(0);
  }
  clockid_t clock;
  if (clock_getcpuclockid(client.pid, &clock) != 0) return Nanos(0);
  return Nanos(sluice_clock(clock));
}

Nanos Testbed::used_by_others() const {
  std::ifstream stat("/proc/stat");
  const std::string wanted = "cpu" + std::to_string(config_.core);
  for (std::string line; std::getline(stat, line);) {
    std::istringstream words(line);
    std::string cpu;
    int64_t user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, softirq = 0, steal = 0;
    words >> cpu >> user >> nice >> system >> idle >> wait >> irq >> softirq >> steal;
    if (cpu != wanted) continue;
    Nanos busy = Seconds(1) * (user + nice + system + irq + softirq + steal) / sysconf(_SC_CLK_TCK);
    for (const auto& [id, client] : clients_) busy -= used(id);
    return busy;
  }
  return Nanos(0);
}

std::string Testbed::enforcement() const {
  return std::string("arbiter ") + std::string(config_.arbiter) + "; " +
         (host_->realtime() ? "real-time thread" : "ordinary thread") + "; " +
         (cgroups_ ? cgroups_->describe() : "no cgroups asked for");
}

double used_share(Testbed& bed, policy::ClientId client, Nanos span) {
  const Nanos used = bed.used(client);
  const uint64_t start = mono();
  while (Nanos(mono() - start) < span) nap(std::min<Nanos>(Millis(10), span));
  return static_cast<double>((bed.used(client) - used).count()) * 1000 / bed.millicores() /
         static_cast<double>(mono() - start);
}

}  // namespace sluice::bench
