// An unmodified CUDA program under the preloaded hook, on the emulated device: a real arbiter,
// permit.sock, and the device's log of what ran. One-sided: noise makes a program use less, never
// more.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "arbiters/shares.h"
#include "base/random.h"
#include "enforce/arbiter_host.h"
#include "enforce/permit_server.h"
#include "gpu/gpu_watch.h"
#include "gpu/meter_cuda.h"
#include "tests/emulator/machine.h"
#include "tests/support/device_meter.h"
#include "tests/support/device_windows.h"
#include "tests/support/eventually.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr int kRequest = 200;
constexpr Nanos kSettle = Seconds(1);   // until what its kernels take is known
constexpr Nanos kInFlight = Millis(1);  // src/hook/meter.h, with a margin for a late poll

Nanos busy(emulator::Machine& machine) {
  const emulator::Machine::Lock lock(machine);
  return Nanos(lock->devices[0].device_busy_ns());
}

// Kinds of programs (cuda_greedy.cc), and how long their longest kernel takes.
struct Kind {
  const char* name;
  Nanos longest_kernel;
  int processes = 1;
};
std::string name_of(const testing::TestParamInfo<Kind>& info) {
  const Kind& kind = info.param;
  return kind.processes == 1 ? kind.name : std::to_string(kind.processes) + "_x_" + kind.name;
}

class Enforcement : public testing::Test {
 protected:
  Enforcement() {
    fs::create_directories(folder_);
    machine_ = emulator::Machine::open(folder_ / "gpu", {});
    setenv("SLUICE_EMULATED_GPU", (folder_ / "gpu").c_str(), 1);
  }
  // The node's daemon; once more: the next one.
  void serve(std::string_view arbiter, std::unique_ptr<node::Meter> meter) {
    server_.reset();
    host_ = std::make_unique<node::ArbiterHost>(clock_, node::HostConfig{.generation = ++started_});
    const policy::ArbiterConfig config;
    host_->add_device(*policy::make_arbiter(arbiter, config), config, 0);
    const policy::ShareClient client{
        .id = 1, .sm = kWhole, .quota = {{kRequest}, {kRequest}}, .position = {}};
    EXPECT_TRUE(host_->admit(0, client, std::move(meter)).ok());
    auto server =
        node::PermitServer::start({.path = folder_ / "permit.sock", .generation = started_}, clock_,
                                  [this](const node::Peer&, uint32_t) -> Result<node::Placement> {
                                    return node::Placement{host_.get(), {0, 1}};
                                  });
    EXPECT_TRUE(server.ok());
    server_ = std::move(*server);
  }
  ~Enforcement() override {
    for (const pid_t program : programs_) {
      kill(program, SIGKILL);
      waitpid(program, nullptr, 0);
    }
    fs::remove_all(folder_);
  }

  void start(const char* kind, const char* hook) {
    programs_.push_back(fork());
    if (programs_.back() != 0) return;
    setenv("SLUICE_PERMIT_SOCKET", (folder_ / "permit.sock").c_str(), 1);
    setenv("LD_LIBRARY_PATH", SLUICE_EMULATED_DRIVER_FOLDER, 1);
    if (hook != nullptr) setenv("LD_PRELOAD", hook, 1);
    execl(SLUICE_CUDA_GREEDY, SLUICE_CUDA_GREEDY, kind, nullptr);
    _exit(127);
  }

  bool device_idle() {
    const emulator::Machine::Lock lock(*machine_);
    return !lock->devices[0].next_change();
  }

  // Starts the program, and returns once it has its pages. What it launches before that runs on
  // (the first launch waits for them, not for ever).
  void start_held(const Kind& kind, const char* hook = SLUICE_CUDA_HOOK) {
    for (int i = 0; i < kind.processes; ++i) start(kind.name, hook);
    ASSERT_TRUE(eventually("its pages", [&] { return attached(kind.processes); }));
    ASSERT_TRUE(eventually("an idle device", [&] { return device_idle(); }));
    ASSERT_TRUE(
        eventually("some work", [&] { return busy(*machine_) >= kSettle * kRequest / 1000; }));
  }
  bool attached(int processes) const { return host_->state({0, 1})->processes == processes; }

  const fs::path folder_ = testing::TempDir() + "cuda" + std::to_string(getpid());
  SteadyClock clock_;
  std::unique_ptr<emulator::Machine> machine_;
  uint32_t started_ = 0;
  std::unique_ptr<node::ArbiterHost> host_;
  std::unique_ptr<node::PermitServer> server_;
  std::vector<pid_t> programs_;
};

// As on a machine that is not given its processors: every now and then the program stands still
// while its window passes, and goes on before the arbiter does, which had begun to look.
TEST_F(Enforcement, HoldsThoughProgramAndArbiterAreKeptFromTheirProcessors) {
  constexpr uint64_t kSeed = 20261122;
  SCOPED_TRACE(kSeed);
  const auto used = [this, random = Random(kSeed)](pid_t program) mutable {
    const bool paused = program != 0 && random.chance(0.1);
    if (paused) {
      kill(program, SIGSTOP);
      std::this_thread::sleep_for(Micros(random.between(3'000, 20'000)));
      kill(program, SIGCONT);
      std::this_thread::sleep_for(Micros(random.between(0, 6'000)));
    }
    return busy(*machine_);
  };
  const Kind kind{"streams", Micros(100)};
  serve("planned", std::make_unique<DeviceMeter>(used));
  start_held(kind);
  expect_share(watch_windows(*machine_), kRequest, kind.longest_kernel + kInFlight);
}

// The checks above would detect a hook that does nothing. Noise lowers its use for a while, not for
// ever.
TEST_F(Enforcement, WithoutTheHookAProgramUsesMore) {
  start("kernel", nullptr);
  bool more = false;
  for (int i = 0; i < 100 && !more; ++i) {
    const auto [begin, log] = log_over(*machine_, 0, Millis(300));
    more = log.busy(begin, begin + Millis(300)) > Millis(100);
  }
  EXPECT_TRUE(more);
}

// As on a node: what is charged is what the hook reports.
class CudaEnforcement : public Enforcement, public testing::WithParamInterface<Kind> {
 protected:
  CudaEnforcement() : watch_(node::GpuWatch::start(SLUICE_EMULATED_NVML)) {
    EXPECT_FALSE(watch_->gpus().empty()) << watch_->describe();
    serve();
  }
  void serve() {
    Enforcement::serve("shares", std::make_unique<node::CudaMeter>(
                                     watch_->account(watch_->gpus().at(0).uuid), clock_.now()));
  }

  // A share is one of a second. Beyond it the program may have what its limit's bucket holds, and
  // of each process a kernel and what is in flight. What its units take is known to a few per cent;
  // of several processes, whose kernels run by turns, to a tenth.
  void expect_share_of_seconds(const Kind& kind) {
    constexpr Nanos kBucket = policy::SharesArbiter::kAhead * kRequest / 1000;
    constexpr Nanos kWatched = Seconds(2);
    const auto [begin, log] = log_over(*machine_, 0, kWatched);
    const Nanos used = log.busy(begin, begin + kWatched);
    const Nanos share = kWatched * kRequest / 1000;
    const Nanos inexact = share / (kind.processes > 1 ? 10 : 20);
    EXPECT_LE(used, share + kBucket + inexact + kind.processes * (kind.longest_kernel + kInFlight));
    EXPECT_GT(used, Nanos(0));
    std::printf("share %.4f\n", seconds(used) / seconds(kWatched));
  }

  const std::unique_ptr<node::GpuWatch> watch_;
};
INSTANTIATE_TEST_SUITE_P(OneThread, CudaEnforcement,
                         testing::Values(Kind{"kernel", Millis(1)}, Kind{"graph", Millis(1)},
                                         Kind{"queue", Micros(10)}, Kind{"streams", Micros(100)},
                                         Kind{"legacy", Micros(200)}, Kind{"lengths", Millis(3)}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Others, CudaEnforcement,
                         testing::Values(Kind{"threads", Micros(100)}, Kind{"ptsz", Micros(100)},
                                         Kind{"exec", Millis(1)}, Kind{"contexts", Micros(100)}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Processes, CudaEnforcement,
                         testing::Values(Kind{"kernel", Millis(1), 4}, Kind{"graph", Millis(1), 4},
                                         Kind{"queue", Micros(10), 4}),
                         name_of);

TEST_P(CudaEnforcement, UsesNoMoreThanItsShare) {
  start_held(GetParam());
  expect_share_of_seconds(GetParam());
}

// Programs keep the hook with which they were started. The one of the pages before these is built
// from its sources (tests/corpus/hook_v1.tar.gz).
using OldHook = CudaEnforcement;
INSTANTIATE_TEST_SUITE_P(, OldHook,
                         testing::Values(Kind{"kernel", Millis(1)}, Kind{"queue", Micros(10)},
                                         Kind{"streams", Micros(100)}),
                         name_of);

TEST_P(OldHook, IsHeldToItsShareByThisDaemonAndTheNext) {
  start_held(GetParam(), SLUICE_CUDA_HOOK_V1);
  expect_share_of_seconds(GetParam());
  serve();
  ASSERT_TRUE(eventually("its pages", [&] { return attached(1); }));
  expect_share_of_seconds(GetParam());
}

}  // namespace
}  // namespace sluice
