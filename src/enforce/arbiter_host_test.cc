// The host with real pages and gates, and an arbiter of a few lines. Clients are threads or gates
// of this process; permit_server_test.cc has those that need their own processes.
// arbiters/hosted_device_test.cc tests a device's decisions without pages and threads.
#include "enforce/arbiter_host.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "base/random.h"
#include "enforce/meter_cpu.h"
#include "gpu/meter_cuda.h"
#include "process/peer.h"
#include "tests/support/device_reports.h"
#include "tests/support/eventually.h"
#include "tests/support/turns.h"
#include "wire/permit.h"

namespace sluice::node {
namespace {

using testing::Contains;

// Sees nothing, and reports that at once.
class BlindMeter : public Meter {
 public:
  std::optional<Reading> poll(Time, bool) override { return std::nullopt; }
  Time last_active() const override { return Time::max() - Seconds(1); }
  Nanos lag() const override { return Millis(1); }
};

// A client that uses nothing.
class IdleMeter : public Meter {
 public:
  std::optional<Reading> poll(Time now, bool) override {
    if (std::exchange(last_poll_, now) == now) return std::nullopt;
    return Reading{Nanos(0), now};
  }
  Time last_active() const override { return Time{}; }
  Nanos lag() const override { return Millis(1); }

 private:
  Time last_poll_{};
};

class ArbiterHostTest : public testing::Test {
 protected:
  ArbiterHostTest() { start(); }

  void start() {
    host.emplace(clock, HostConfig{.generation = ++generation});
    device = host->add_device(std::make_unique<policy::TestTurns>(), {}, 1000);
  }
  policy::ShareClient share(policy::ClientId id, int request = 200) {
    return {.id = id, .sm = kWhole, .quota = {{request}, {request}}, .position = {}};
  }
  void admit(policy::ClientId id) {
    ASSERT_TRUE(host->admit(device, share(id), std::make_unique<BlindMeter>()).ok());
  }
  // Hands a client's pages to a gate, as the socket would.
  ProcessNumber attach(policy::ClientId id, sluice_gate& gate, DeviceNumber on = 0) {
    Attachment a = attach_raw(id, on);
    const int fds[3] = {a.pages.permit.release(), a.pages.usage.release(), a.bell.release()};
    EXPECT_TRUE(sluice_attach_pages(&gate, sluice_process_of(&gate), fds, -1));
    return a.number;
  }
  Attachment attach_raw(policy::ClientId id, DeviceNumber on = 0) {
    const ProcessIdentity self{getpid(), ++fake_start_time};
    auto attached =
        host->attach({on, id}, self, Fd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0))));
    EXPECT_TRUE(attached.ok()) << attached.error().message;
    return std::move(*attached);
  }
  // Passes `n` units of work.
  static void work(sluice_gate& gate, int n) {
    sluice_thread* mine = nullptr;
    for (int i = 0; i < n; ++i) sluice_gate_pass(&gate, &mine);
    sluice_gate_idle_begin(mine);
  }

  SteadyClock clock;
  uint32_t generation = 0;
  uint64_t fake_start_time = 0;
  std::optional<ArbiterHost> host;
  DeviceNumber device = 0;
};

TEST_F(ArbiterHostTest, ServesAClientThatAsks) {
  admit(1);
  sluice_gate gate{};
  attach(1, gate);
  work(gate, 1000);
  EXPECT_EQ(sluice_gate_state(&gate), SLUICE_GATE_ATTACHED);
  EXPECT_EQ(host->state({device, 1})->processes, 1);
}

TEST_F(ArbiterHostTest, AResizeIsInForceWhenItReturns) {
  admit(1);
  sluice_gate gate{};
  attach(1, gate);
  sluice_thread* mine = nullptr;
  sluice_gate_pass(&gate, &mine);  // and still has work
  const sluice_permit_page* page = gate.process->current->permit;
  for (int request : {300, 50, 1000}) {
    const uint32_t before = page->seq;
    ASSERT_TRUE(host->change_share(device, share(1, request)).ok());
    EXPECT_EQ(page->request, static_cast<uint32_t>(request));
    EXPECT_NE(page->seq, before);  // this arbiter renews on a change
  }
}

TEST_F(ArbiterHostTest, WhatTheArbiterRefusesChangesNothing) {
  admit(1);
  sluice_gate gate{};
  attach(1, gate);
  EXPECT_EQ(host->change_share(device, share(1, 1001)).error().kind, ErrorKind::kExhausted);
  EXPECT_EQ(gate.process->current->permit->request, 200u);
  EXPECT_EQ(host->admit(device, share(2, 1001), std::make_unique<BlindMeter>()).error().kind,
            ErrorKind::kExhausted);
  EXPECT_FALSE(host->state({device, 2}).ok());
  EXPECT_EQ(host->admit(device, share(1), std::make_unique<BlindMeter>()).error().kind,
            ErrorKind::kConflict);
  EXPECT_EQ(host->change_share(device, share(9)).error().kind, ErrorKind::kNotFound);
}

TEST_F(ArbiterHostTest, AProcessThatAttachesAgainLosesItsOldPages) {
  admit(1);
  const ProcessIdentity self = *identity_of(getpid());
  const auto attach_self = [&] { return *host->attach({device, 1}, self, *open_process(self)); };
  Attachment first = attach_self();
  const void* old =
      mmap(nullptr, SLUICE_PAGE_SIZE, PROT_READ, MAP_SHARED, first.pages.permit.get(), 0);
  Attachment second = attach_self();
  EXPECT_TRUE(static_cast<const sluice_permit_page*>(old)->flags & SLUICE_CLOSED);
  EXPECT_EQ(host->state({device, 1})->processes, 1);
}

TEST_F(ArbiterHostTest, WhoseEndCannotBeHeardOfIsRefused) {
  admit(1);
  const auto attached =
      host->attach({device, 1}, {getpid(), 1}, Fd(open("/dev/null", O_RDONLY | O_CLOEXEC)));
  ASSERT_FALSE(attached.ok());
  EXPECT_EQ(attached.error().kind, ErrorKind::kExhausted);
  EXPECT_EQ(host->state({device, 1})->processes, 0);
  sluice_gate gate{};
  attach(1, gate);
  work(gate, 1000);
}

TEST_F(ArbiterHostTest, ARemovedClientIsNotServedAnyMore) {
  admit(1);
  sluice_gate gate{};
  attach(1, gate);
  work(gate, 10);
  host->remove({device, 1});
  EXPECT_EQ(sluice_gate_state(&gate), SLUICE_GATE_ALONE);
  work(gate, 10);
  EXPECT_FALSE(host->state({device, 1}).ok());
}

TEST_F(ArbiterHostTest, ClientsOutliveTheHost) {
  admit(1);
  sluice_gate gate{};
  attach(1, gate);
  work(gate, 10);
  host.reset();
  work(gate, 100);
  EXPECT_EQ(sluice_gate_state(&gate), SLUICE_GATE_ALONE);

  start();
  admit(1);
  attach(1, gate);
  work(gate, 100);
  EXPECT_EQ(sluice_gate_state(&gate), SLUICE_GATE_ATTACHED);
  EXPECT_EQ(gate.process->current->permit->header.generation, 2u);
}

// Only by its pidfd: no connection reports it.
TEST_F(ArbiterHostTest, ADeathIsNoticedWithoutAWord) {
  admit(1);
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  const ProcessIdentity process = *identity_of(child);
  ASSERT_TRUE(host->attach({device, 1}, process, *open_process(process)).ok());
  EXPECT_EQ(host->state({device, 1})->processes, 1);
  kill(child, SIGKILL);
  EXPECT_TRUE(eventually("the dead process to be dropped", [&] {
    return host->state({device, 1})->processes == 0;
  }));
  waitpid(child, nullptr, 0);
}

// Returns how many descriptors the epolls of this process watch.
int watched() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream info(entry.path());
    for (std::string line; std::getline(info, line);) count += line.starts_with("tfd:") ? 1 : 0;
  }
  return count;
}

// Other processes hold what the host watched: the client its bell, the daemon the pidfd. Epoll
// would report them for ever, and the thread, which runs before all others, would spin.
TEST_F(ArbiterHostTest, NothingOfADroppedProcessIsWatched) {
  admit(1);
  const int before = watched();
  const Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  const auto attached =
      host->attach({device, 1}, {getpid(), 1}, Fd(fcntl(pidfd.get(), F_DUPFD_CLOEXEC, 0)));
  ASSERT_TRUE(attached.ok());
  EXPECT_EQ(watched(), before + 2);
  host->detach(attached->number);
  EXPECT_EQ(watched(), before);
}

// Receives the reports of processes, and notes when they leave.
class HearingMeter : public BlindMeter {
 public:
  struct Heard {
    uint64_t submitted_ns = 0, when_it_left = 0;
  };
  explicit HearingMeter(std::shared_ptr<Heard> heard) : heard_(std::move(heard)) {}
  void report(const ProcessIdentity&, const sluice_device_report& report, Time) override {
    heard_->submitted_ns = report.submitted_ns;
  }
  void remove_process(const ProcessIdentity&) override {
    heard_->when_it_left = heard_->submitted_ns;
  }

 private:
  const std::shared_ptr<Heard> heard_;
};

// The device's account reports all that it did.
TEST_F(ArbiterHostTest, TheLastWordOfAProcessIsHeard) {
  const auto heard = std::make_shared<HearingMeter::Heard>();
  ASSERT_TRUE(host->admit(device, share(1), std::make_unique<HearingMeter>(heard)).ok());
  const Attachment client = attach_raw(1);
  auto* page = static_cast<sluice_usage_page*>(mmap(
      nullptr, SLUICE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, client.pages.usage.get(), 0));
  ASSERT_NE(page, MAP_FAILED);
  const sluice_device_report last{.submitted_ns = 7, .seen_ns = 1};
  sluice_device_report_write(page, &last);
  host->detach(client.number);
  EXPECT_EQ(heard->when_it_left, 7U);
  munmap(page, SLUICE_PAGE_SIZE);
}

// The thread may lose its processor at any point. Use until it came to read would then be charged
// to a window that had ended.
TEST_F(ArbiterHostTest, TheClockIsReadBehindWhatIsObserved) {
  class PunctualMeter : public BlindMeter {
   public:
    PunctualMeter(const Clock& clock, std::shared_ptr<std::atomic<int>> polls)
        : clock_(clock), polls_(std::move(polls)) {}
    void look() override { looked_at_ = clock_.now(); }
    std::optional<Reading> poll(Time now, bool) override {
      EXPECT_GE(now, looked_at_);
      EXPECT_NE(std::exchange(looked_at_, Time::max()), Time::max()) << "looks before each";
      ++*polls_;
      return std::nullopt;
    }

   private:
    const Clock& clock_;
    const std::shared_ptr<std::atomic<int>> polls_;
    Time looked_at_ = Time::max();
  };
  const auto polls = std::make_shared<std::atomic<int>>();
  ASSERT_TRUE(host->admit(device, share(1), std::make_unique<PunctualMeter>(clock, polls)).ok());
  EXPECT_GE(*polls, 1);
  EXPECT_TRUE(host->state({device, 1}).ok());
  EXPECT_GE(*polls, 2);
  EXPECT_TRUE(host->change_share(device, share(1, 300)).ok());
  EXPECT_GE(*polls, 4);
}

// Writes anything anywhere on a client's usage page, and rings the doorbell.
class Attacker {
 public:
  static constexpr uint64_t kSeed = 20260501;

  explicit Attacker(Attachment client)
      : client_(std::move(client)),
        page_(static_cast<uint32_t*>(mmap(nullptr, SLUICE_PAGE_SIZE, PROT_READ | PROT_WRITE,
                                          MAP_SHARED, client_.pages.usage.get(), 0))),
        thread_([this] { run(); }) {}
  ~Attacker() {
    stop_ = true;
    thread_.join();
    munmap(page_, SLUICE_PAGE_SIZE);
  }
  Attacker(const Attacker&) = delete;

  bool has_tried_long() const { return written_ > 5000; }

 private:
  void run() {
    Random random(kSeed);
    for (; !stop_; ++written_) {
      const size_t word = random.below(SLUICE_PAGE_SIZE / sizeof *page_);
      const uint32_t value = random.chance(0.3) ? ~0u : static_cast<uint32_t>(random.next());
      __atomic_store_n(&page_[word], value, __ATOMIC_SEQ_CST);
      eventfd_write(client_.bell.get(), random.next() >> 8);
    }
  }

  const Attachment client_;
  uint32_t* const page_;
  std::atomic<bool> stop_{false};
  std::atomic<int> written_{0};
  std::thread thread_;
};

// Whatever a client writes into its page and however often it rings, its neighbour is served: the
// kernel's counter shows that it has stopped.
TEST_F(ArbiterHostTest, AHostileUsagePageHarmsNobody) {
  SCOPED_TRACE(Attacker::kSeed);
  admit(1);
  ASSERT_TRUE(host->admit(device, share(2), std::make_unique<IdleMeter>()).ok());
  sluice_gate gate{};
  attach(1, gate);
  const Attacker hostile(attach_raw(2));
  while (!hostile.has_tried_long()) work(gate, 1000);
  EXPECT_TRUE(host->change_share(device, share(1, 400)).ok());
}
// On a GPU its reports of the device and its hints count. It may report that its work goes on for
// ever; it is then given up after the drain bound, and pays for that.
TEST_F(ArbiterHostTest, NorDoesOneOnAGpu) {
  SCOPED_TRACE(Attacker::kSeed);
  const policy::ArbiterConfig config{.window = policy::window_of("window")};
  const DeviceNumber gpu =
      host->add_device(std::move(*policy::make_arbiter("window", config)), config, 0);
  const Time start = clock.now();
  for (const policy::ClientId id : {1, 2})
    ASSERT_TRUE(host->admit(gpu, share(id), std::make_unique<CudaMeter>(nullptr, start)).ok());
  sluice_gate gate{.metered = 1};  // and it submits nothing
  attach(1, gate, gpu);
  const Attacker hostile(attach_raw(2, gpu));
  while (!hostile.has_tried_long()) work(gate, 1000);
  EXPECT_TRUE(host->change_share(gpu, share(1, 400)).ok());
  const auto state = host->state({gpu, 2});
  EXPECT_LE(state->used, ReportedWork::kFastest * (clock.now() - start));
}

// --- budgets of a GPU ----------------------------------------------------------------------------

// A client of a GPU under `shares`, with whole device to borrow, and its pages.
class GpuBudgets : public ArbiterHostTest {
 protected:
  GpuBudgets() {
    gpu = host->add_device(*policy::make_arbiter("shares", {}), {}, 0);
    EXPECT_TRUE(
        host->admit(gpu, share_of(200), std::make_unique<CudaMeter>(nullptr, clock.now())).ok());
  }
  ~GpuBudgets() override {
    for (void* page : {static_cast<void*>(permit), static_cast<void*>(usage)})
      if (page != nullptr) munmap(page, SLUICE_PAGE_SIZE);
  }
  static policy::ShareClient share_of(int request) {
    return {.id = 1, .sm = kWhole, .quota = {{request}, kWhole}};
  }
  void attach(uint32_t version, policy::ClientId id = 1) {
    const ProcessIdentity self{getpid(), ++fake_start_time};
    client = std::move(*host->attach(
        {gpu, id}, self, Fd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0))), version));
    const auto map = [](const Fd& fd, int rights) {
      return mmap(nullptr, SLUICE_PAGE_SIZE, rights, MAP_SHARED, fd.get(), 0);
    };
    permit = static_cast<sluice_permit_page*>(map(client.pages.permit, PROT_READ));
    usage = static_cast<sluice_usage_page*>(map(client.pages.usage, PROT_READ | PROT_WRITE));
  }
  void ring() const { eventfd_write(client.bell.get(), 1); }
  bool granted() const { return __atomic_load_n(&permit->seq, __ATOMIC_SEQ_CST) % 2 == 0; }

  DeviceNumber gpu = 0;
  Attachment client;
  sluice_permit_page* permit = nullptr;
  sluice_usage_page* usage = nullptr;
};

TEST_F(GpuBudgets, AreTotalsThatAResizeChangesBeforeItReturns) {
  attach(SLUICE_WIRE_VERSION);
  __atomic_store_n(&usage->want, 1U, __ATOMIC_SEQ_CST);
  __atomic_store_n(&usage->waiting, 1U, __ATOMIC_SEQ_CST);
  ring();
  ASSERT_TRUE(eventually("a budget", [&] { return granted() && permit->allowed_ns > 0; }));
  EXPECT_GT(permit->in_flight_ns, 0U);
  const uint64_t before = permit->allowed_ns;
  ASSERT_TRUE(host->change_share(gpu, share_of(800)).ok());
  EXPECT_EQ(permit->request, 800U);
  EXPECT_GT(permit->allowed_ns, before) << "it may submit further ahead";
}

// A client with budget rings for nothing, so what the daemon last read may be old.
TEST_F(GpuBudgets, TheDevicesAccountIsComparedWithWhatTheClientReportsByThen) {
  const auto account = std::make_shared<ScriptedAccount>();
  policy::ShareClient second = share_of(200);
  second.id = 2;
  second.position.time_begin = {200};
  ASSERT_TRUE(host->admit(gpu, second, std::make_unique<CudaMeter>(account, clock.now())).ok());
  attach(SLUICE_WIRE_VERSION, 2);
  const auto use = [&](Time from, Nanos busy) {
    account->uses[getpid()] = {from, clock.now(), busy, Nanos(0)};
    return host->watch({gpu, 2}, getpid());
  };
  Time from = clock.now();
  EXPECT_EQ(use(from, Nanos(0)), Nanos(0)) << "when it began is not known";
  const auto now = static_cast<uint64_t>(clock.now().time_since_epoch().count());
  const sluice_device_report report{
      .submitted_ns = 5'000'000, .finished_ns = 5'000'000, .seen_ns = now};
  sluice_device_report_write(usage, &report);
  EXPECT_EQ(use(from, Millis(5)), Nanos(0));
  from = clock.now();
  while (clock.now() < from + 2 * CudaMeter::kSkew) sched_yield();
  EXPECT_EQ(use(from + CudaMeter::kSkew, Millis(3)), Millis(3)) << "it reports nothing of that";
}

// It counts what it spends from when it sees a grant. Alone, its budget stays as it is: none the
// less it has another grant whenever it has used one up.
TEST_F(GpuBudgets, AClientOfTheVersionBeforeHasThemAsOneGrantAfterAnother) {
  attach(SLUICE_WIRE_VERSION - 1);
  EXPECT_EQ(permit->header.version, SLUICE_WIRE_VERSION - 1);
  __atomic_store_n(&usage->want, 1U, __ATOMIC_SEQ_CST);
  uint32_t seen = 0;
  for (int turn = 0; turn < 20; ++turn) {
    __atomic_store_n(&usage->waiting, 1U, __ATOMIC_SEQ_CST);
    ring();
    ASSERT_TRUE(eventually("a grant", [&] { return granted() && permit->seq != seen; })) << turn;
    seen = permit->seq;
    EXPECT_GT(permit->budget_ns, 0U);
    __atomic_store_n(&usage->waiting, 0U, __ATOMIC_SEQ_CST);
    usage->device_busy_ns += permit->budget_ns;
    __atomic_store_n(&usage->device_seen_ns, sluice_clock(CLOCK_MONOTONIC), __ATOMIC_SEQ_CST);
    (void)host->state({gpu, 1});  // the daemon looks, and sees it used up
  }
}

// Two clients of one rectangle: TestTurns admits both, `planned` refuses the second.
TEST_F(ArbiterHostTest, AnEmptyDeviceRunsAnotherArbiterFromThenOn) {
  for (const policy::ClientId id : {1, 2}) admit(id);
  for (const policy::ClientId id : {1, 2}) host->remove({device, id});
  const policy::ArbiterConfig config{.window = policy::window_of("planned")};
  host->set_arbiter(device, std::move(*policy::make_arbiter("planned", config)), config);
  admit(1);
  EXPECT_FALSE(host->admit(device, share(2), std::make_unique<BlindMeter>()).ok());
  sluice_gate gate{};
  attach(1, gate);
  work(gate, 1000);
}

TEST_F(ArbiterHostTest, ChargesWhatTheKernelCounts) {
  auto counter = std::make_unique<ProcessCounter>();
  ASSERT_TRUE(host->admit(device, share(1),
                          std::make_unique<CpuMeter>(std::move(counter), 500, clock.now()))
                  .ok());
  sluice_gate gate{};
  attach(1, gate);
  const uint64_t start = sluice_clock(CLOCK_PROCESS_CPUTIME_ID);
  uint64_t used = 0;
  while ((used = sluice_clock(CLOCK_PROCESS_CPUTIME_ID) - start) < 100'000'000) work(gate, 1000);
  const Nanos busy = host->state({device, 1})->used;
  EXPECT_GE(busy, Nanos(used) * 2 - Millis(40));  // half a core: busy for twice the CPU time
}

}  // namespace
}  // namespace sluice::node
