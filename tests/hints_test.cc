// Clients' hints on their requests and iterations reach the arbiter of a CPU device from other
// processes, and take effect. Under `deadline` the client whose request is due first runs first.
// Under `introspective` an instance that raises an emergency gets the others' tokens until it ends.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "enforce/meter_cpu.h"
#include "tests/support/client_process.h"
#include "tests/support/eventually.h"

namespace sluice {
namespace {

constexpr int kMillicores = 1000;

// Can be held: then a thread that asks for the time waits, and decides nothing meanwhile.
class HeldClock : public Clock {
 public:
  Time now() const override {
    std::unique_lock lock(mutex_);
    if (held_) {
      const unsigned question = ++asked_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return !held_ || answered_ >= question; });
    }
    return steady_.now();
  }
  // Returns when a thread asks.
  void hold() {
    std::unique_lock lock(mutex_);
    held_ = true;
    await_question(lock);
  }
  // Answers, and returns when a thread asks again.
  void answer() {
    std::unique_lock lock(mutex_);
    answered_ = asked_;
    changed_.notify_all();
    await_question(lock);
  }
  void release() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }

 private:
  void await_question(std::unique_lock<std::mutex>& lock) {
    changed_.wait(lock, [this] { return asked_ > answered_; });
  }

  SteadyClock steady_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool held_ = false;
  mutable unsigned asked_ = 0;
  unsigned answered_ = 0;
};

// A device under one arbiter.
struct Device {
  explicit Device(std::string_view arbiter, const Clock& clock) : clock(clock), host(clock, {}) {
    const policy::ArbiterConfig config{.window = policy::window_of(arbiter)};
    host.add_device(*policy::make_arbiter(arbiter, config), config, kMillicores);
  }
  void admit(const policy::ShareClient& share) {
    auto meter =
        std::make_unique<node::CpuMeter>(std::make_unique<node::ProcessCounter>(),
                                         kMillicores * share.sm.permille / 1000, clock.now());
    ASSERT_TRUE(host.admit(0, share, std::move(meter)).ok());
  }

  const Clock& clock;
  node::ArbiterHost host;
};

// Returns memory that children inherit.
template <class T>
class Shared {
 public:
  Shared()
      : value_(new (mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                         0)) T{}) {}
  ~Shared() { munmap(value_, sizeof(T)); }
  Shared(const Shared&) = delete;
  T* operator->() { return value_; }
  T& operator*() { return *value_; }

 private:
  T* value_;
};

// ---- deadline ----------------------------------------------------------------------------------

constexpr int kAgain = 0;

// Two clients begin to wait while no decision is made. Returns to which of them the first decision
// gives the device; which one runs first is up to the machine. The plan would give it to the client
// in whose phase the decision falls. Repeats if a client may have waited so long that it took the
// daemon for dead.
int first_of_two(Nanos due_of_1, Nanos due_of_2) {
  HeldClock clock;
  Shared<std::atomic<int>> ran;
  Device device("deadline", clock);
  device.admit({.id = 1, .sm = kWhole, .quota = {{500}, {1000}}, .position = {}});
  device.admit({.id = 2, .sm = kWhole, .quota = {{500}, {1000}}, .position = {{0}, {500}}});
  const auto life = [&](ClientProcess::Self& self) {
    sluice_hint_due(&self.gate, self.hear());
    self.pass();
    ++*ran;
    self.rest();
    self.hear();
  };
  ClientProcess one(device.host, {0, 1}, life), two(device.host, {0, 2}, life);
  const Time now = clock.now();
  clock.hold();
  one.tell(static_cast<uint64_t>((now + due_of_1).time_since_epoch().count()));
  two.tell(static_cast<uint64_t>((now + due_of_2).time_since_epoch().count()));
  const auto both_wait = [&] { return one.waits() && two.waits(); };
  EXPECT_TRUE(eventually("both to wait", [&] { return both_wait() || *ran > 0; }));
  while (*ran == 0 && !one.granted() && !two.granted()) clock.answer();
  const int first = (one.granted() ? 1 : 0) + (two.granted() ? 2 : 0);
  clock.release();
  const bool silent = clock.now() - now > Nanos(SLUICE_DEAD_NS) / 2;
  EXPECT_TRUE(eventually("both to run", [&] { return *ran == 2; }));
  return silent ? kAgain : first;
}

TEST(DeadlineAcrossProcesses, WhoseRequestIsDueFirstRunsFirst) {
  const auto expect_first = [](Nanos due_of_1, Nanos due_of_2, int expected) {
    int first = kAgain;
    while (first == kAgain) first = first_of_two(due_of_1, due_of_2);
    EXPECT_EQ(first, expected);
  };
  for (int round = 0; round < 8; ++round) {
    expect_first(Seconds(10), Seconds(20), 1);
    expect_first(Seconds(20), Seconds(10), 2);
  }
}

// ---- introspective -----------------------------------------------------------------------------

void burn(Nanos cpu) {
  const uint64_t start = sluice_clock(CLOCK_THREAD_CPUTIME_ID);
  while (Nanos(sluice_clock(CLOCK_THREAD_CPUTIME_ID) - start) < cpu) {
  }
}

[[noreturn]] void work(ClientProcess::Self& self) {
  for (;;) {
    self.pass();
    burn(Micros(100));
  }
}

// A server, whose iterations become slow and fast again, beside training; side by side in space.
class IntrospectiveAcrossProcesses : public testing::Test {
 protected:
  static constexpr policy::ClientId kServer = 1, kTrainer = 2;

  IntrospectiveAcrossProcesses() {
    device_.admit({.id = kServer, .sm = {500}, .quota = {{400}, {800}}, .has_slo = true});
    device_.admit({.id = kTrainer, .sm = {500}, .quota = {{300}, {900}}, .position = {{500}, {0}}});
    server_.emplace(device_.host, node::ClientRef{0, kServer},
                    [this](ClientProcess::Self& self) { serve(self); });
    trainer_.emplace(device_.host, node::ClientRef{0, kTrainer}, work);
  }
  // The host ensures that no client can claim a cycle longer than the time since its last.
  [[noreturn]] void serve(ClientProcess::Self& self) {
    for (;;) {
      for (int unit = 0; unit < 20; ++unit) {
        self.pass();
        burn(Micros(100));
      }
      sluice_hint_iteration(&self.gate, *slow_ ? UINT64_MAX : 100'000, 0);
    }
  }

  // The trainer's tokens are close to its limit, 4.5 ms a window.
  testing::AssertionResult await_many_tokens() {
    return eventually("the trainer's limit", [&] { return trainer_->budget() >= Millis(4); });
  }
  // … or close to the floor, for a hundred polls.
  testing::AssertionResult await_few_tokens() {
    int looks = 0;
    return eventually("the trainer to have next to nothing", [&] {
      looks = trainer_->budget() <= Micros(500) ? looks + 1 : 0;
      return looks == 100;
    });
  }

  SteadyClock clock_;
  Shared<std::atomic<bool>> slow_;
  Device device_{"introspective", clock_};
  std::optional<ClientProcess> server_, trainer_;
};

TEST_F(IntrospectiveAcrossProcesses, AnEmergencyIsSeenAndEndsWithTheInstanceThatRaisedIt) {
  EXPECT_TRUE(await_many_tokens()) << "while the server is as fast as ever";
  *slow_ = true;
  EXPECT_TRUE(await_few_tokens());
  server_->end();
  device_.host.remove({0, kServer});
  EXPECT_TRUE(await_many_tokens());
}

TEST_F(IntrospectiveAcrossProcesses, AnEmergencyEndsWhenIterationsAreShortAgain) {
  *slow_ = false;
  EXPECT_TRUE(await_many_tokens());
  *slow_ = true;
  EXPECT_TRUE(await_few_tokens());
  *slow_ = false;
  EXPECT_TRUE(await_many_tokens());
}

}  // namespace
}  // namespace sluice
