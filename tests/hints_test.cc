// What clients say of their requests and iterations reaches the arbiter of a CPU device from other
// processes, and moves the device: under `deadline` whose request is due first runs first; under
// `introspective` an instance that raises an emergency gets the others' tokens until it ends.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "base/eventually_for_test.h"
#include "node/meter_cpu.h"
#include "tests/client_process.h"

namespace sluice {
namespace {

constexpr int kMillicores = 1000;

// Can be held: then whoever asks for the time waits, and decides nothing meanwhile.
class HeldClock : public Clock {
 public:
  Time now() const override {
    std::unique_lock lock(mutex_);
    if (held_) {
      ++waiting_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return !held_; });
      --waiting_;
    }
    return steady_.now();
  }
  // Returns when somebody waits.
  void hold() {
    std::unique_lock lock(mutex_);
    held_ = true;
    changed_.wait(lock, [this] { return waiting_ > 0; });
  }
  void release() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }

 private:
  SteadyClock steady_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool held_ = false;
  mutable int waiting_ = 0;
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

// Memory that children inherit.
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

// Two clients that come to wait while nobody decides; which of them gets the device first. The plan
// would give it to the one in whose phase the decision falls.
int first_of_two(Nanos due_of_1, Nanos due_of_2) {
  HeldClock clock;
  Shared<std::atomic<int>> first;
  Device device("deadline", clock);
  device.admit({.id = 1, .sm = kWhole, .quota = {{500}, {1000}}, .position = {}});
  device.admit({.id = 2, .sm = kWhole, .quota = {{500}, {1000}}, .position = {{0}, {500}}});
  const auto life = [&](int id) {
    return [&first, id](ClientProcess::Self& self) {
      sluice_hint_due(&self.gate, self.hear());
      self.pass();
      int nobody = 0;
      first->compare_exchange_strong(nobody, id);
      self.rest();
      self.hear();
    };
  };
  ClientProcess one(device.host, {0, 1}, life(1)), two(device.host, {0, 2}, life(2));
  const Time now = clock.now();
  clock.hold();
  one.tell(static_cast<uint64_t>((now + due_of_1).time_since_epoch().count()));
  two.tell(static_cast<uint64_t>((now + due_of_2).time_since_epoch().count()));
  EXPECT_TRUE(eventually("both to wait", [&] { return one.waits() && two.waits(); }));
  clock.release();
  EXPECT_TRUE(eventually("the first", [&] { return *first != 0; }));
  return *first;
}

TEST(DeadlineAcrossProcesses, WhoseRequestIsDueFirstRunsFirst) {
  for (int round = 0; round < 8; ++round) {
    EXPECT_EQ(first_of_two(Seconds(10), Seconds(20)), 1);
    EXPECT_EQ(first_of_two(Seconds(20), Seconds(10)), 2);
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

// A server, whose iterations are as short as ever or not, beside training; side by side in space.
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
  // Nobody can claim a cycle that is longer than the time since the last: the host sees to it.
  [[noreturn]] void serve(ClientProcess::Self& self) {
    for (;;) {
      for (int unit = 0; unit < 20; ++unit) {
        self.pass();
        burn(Micros(100));
      }
      sluice_hint_iteration(&self.gate, *slow_ ? UINT64_MAX : 100'000, 0);
    }
  }

  // The trainer's tokens are of the order of its limit, 4.5 ms a window.
  testing::AssertionResult await_many_tokens() {
    return eventually("the trainer's limit", [&] { return trainer_->budget() >= Millis(4); });
  }
  // … or of the floor, for a hundred looks.
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
