// An unmodified CUDA program under the preloaded hook, on the emulated device: a real arbiter,
// permit.sock, and the device's own account of what ran. One-sided: noise makes a program use less,
// never more.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/eventually_for_test.h"
#include "emulator/machine.h"
#include "node/arbiter_host.h"
#include "node/permit_server.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr int kRequest = 200;
constexpr double kAtMost = 0.25;  // and one kernel of a millisecond in each window of 20

Nanos busy(emulator::Machine& machine) {
  const emulator::Machine::Lock lock(machine);
  return Nanos(lock->devices[0].device_busy_ns());
}

// What the device itself says, of the only program on it.
class DeviceMeter : public node::Meter {
 public:
  explicit DeviceMeter(emulator::Machine& machine) : machine_(machine), last_(busy(machine)) {}

  std::optional<node::Reading> poll(Time now, bool) override {
    if (std::exchange(last_poll_, now) == now) return std::nullopt;
    const Nanos total = busy(machine_);
    if (total != last_) last_active_ = now;
    return node::Reading{total - std::exchange(last_, total), now};
  }
  Time last_active() const override { return last_active_; }
  Nanos lag() const override { return Millis(1); }

 private:
  emulator::Machine& machine_;
  Nanos last_;
  Time last_poll_{}, last_active_{};
};

class CudaEnforcement : public testing::Test {
 protected:
  CudaEnforcement() : host_(clock_, {}) {
    fs::create_directories(folder_);
    machine_ = emulator::Machine::open(folder_ / "gpu", {});
    const policy::ArbiterConfig config;
    host_.add_device(*policy::make_arbiter(policy::kDefaultArbiter, config), config, 0);
    const policy::ShareClient client{
        .id = 1, .sm = kWhole, .quota = {{kRequest}, {kRequest}}, .position = {}};
    EXPECT_TRUE(host_.admit(0, client, std::make_unique<DeviceMeter>(*machine_)).ok());
    auto server =
        node::PermitServer::start({.path = folder_ / "permit.sock"}, clock_,
                                  [this](const node::Peer&, uint32_t) -> Result<node::Placement> {
                                    return node::Placement{&host_, {0, 1}};
                                  });
    EXPECT_TRUE(server.ok());
    server_ = std::move(*server);
  }
  ~CudaEnforcement() override {
    if (program_ > 0) {
      kill(program_, SIGKILL);
      waitpid(program_, nullptr, 0);
    }
    fs::remove_all(folder_);
  }

  void start(const char* kind, bool hooked) {
    program_ = fork();
    if (program_ != 0) return;
    setenv("SLUICE_EMULATED_GPU", (folder_ / "gpu").c_str(), 1);
    setenv("SLUICE_PERMIT_SOCKET", (folder_ / "permit.sock").c_str(), 1);
    setenv("LD_LIBRARY_PATH", SLUICE_EMULATED_DRIVER_FOLDER, 1);
    if (hooked) setenv("LD_PRELOAD", SLUICE_CUDA_HOOK, 1);
    execl(SLUICE_CUDA_GREEDY, SLUICE_CUDA_GREEDY, kind, nullptr);
    _exit(127);
  }

  double share_over(Nanos span) {
    const Time begin = clock_.now();
    const Nanos before = busy(*machine_);
    usleep(static_cast<useconds_t>(span / Micros(1)));
    const Nanos used = busy(*machine_) - before;
    return seconds(used) / seconds(clock_.now() - begin);
  }

  void expect_held(const char* kind) {
    start(kind, true);
    ASSERT_TRUE(eventually("32 ms of work", [&] { return busy(*machine_) >= Millis(32); }));
    const double share = share_over(Seconds(3));
    EXPECT_LE(share, kAtMost);
    EXPECT_GT(share, 0);
    EXPECT_EQ(host_.state({0, 1})->processes, 1) << "the hook did not attach";
    std::printf("share %.3f\n", share);
  }

  const fs::path folder_ = testing::TempDir() + "cuda" + std::to_string(getpid());
  SteadyClock clock_;
  std::unique_ptr<emulator::Machine> machine_;
  node::ArbiterHost host_;
  std::unique_ptr<node::PermitServer> server_;
  pid_t program_ = -1;
};

TEST_F(CudaEnforcement, ABusyProgramAt20PercentUsesThatAndAKernelAWindow) {
  expect_held("kernel");
}
TEST_F(CudaEnforcement, SoDoesOneThatLaunchesGraphs) {
  expect_held("graph");
}

// The checks above would find a hook that does nothing.
TEST_F(CudaEnforcement, WithoutTheHookItUsesMore) {
  start("kernel", false);
  double highest = 0;  // noise can lower it for a while, not for ever
  for (int i = 0; i < 100 && highest <= kAtMost; ++i)
    highest = std::max(highest, share_over(Millis(300)));
  EXPECT_GT(highest, kAtMost);
}

}  // namespace
}  // namespace sluice
