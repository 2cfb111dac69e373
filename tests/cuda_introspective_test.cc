// Unmodified programs under `introspective`, on the emulated device. One has an objective; its
// iterations, seen only by its waits, become slow and fast again. The device's own account decides.
// They run side by side in space (MPS), so that only the arbiter keeps one from the device for the
// other's sake.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <utility>

#include "enforce/arbiter_host.h"
#include "enforce/permit_server.h"
#include "tests/support/device_meter.h"
#include "tests/support/emulated_gpus.h"
#include "tests/support/eventually.h"

namespace sluice {
namespace {

constexpr policy::ClientId kServer = 1, kTrainer = 2;

// Returns the device's work for a process, by its own account.
Nanos used_by(emulator::Machine& machine, pid_t pid) {
  const emulator::Machine::Lock state(machine);
  for (const emulator::Process& p : state->processes)
    if (p.used && p.pid == pid && p.client[0] != emulator::DeviceModel::kNone)
      return Nanos(state->devices[0].usage(p.client[0]).busy_ns);
  return Nanos(0);
}

class CudaIntrospective : public EmulatedGpus {
 protected:
  CudaIntrospective() {
    make("shared=1");
    const policy::ArbiterConfig config{.window = policy::window_of("introspective")};
    host_.emplace(clock_, node::HostConfig{});
    host_->add_device(*policy::make_arbiter("introspective", config), config, 0);
    auto server = node::PermitServer::start(
        {.path = folder_ + "/permit.sock"}, clock_,
        [this](const node::Peer& peer, uint32_t) -> Result<node::Placement> {
          return node::Placement{&*host_, {0, peer.process.pid == server_ ? kServer : kTrainer}};
        });
    EXPECT_TRUE(server.ok());
    permits_ = std::move(*server);
    // The server is not held back by its own quota, whatever its state. Iterations up to three
    // times the shortest are tolerated, so that noise raises no emergency.
    admit({.id = kServer,
           .sm = {500},
           .quota = {kWhole, kWhole},
           .has_slo = true,
           .slo = Millis(50),
           .tolerance = 3000});
    admit({.id = kTrainer, .sm = {500}, .quota = {{300}, {900}}, .position = {{500}, kNone}});
    server_ = start({SLUICE_CUDA_ITERATIVE});
    EXPECT_TRUE(eventually("iterations", [&] { return used_by(*machine_, server_) > Millis(80); }));
    trainer_ = start({SLUICE_CUDA_GREEDY, "kernel"});
  }
  ~CudaIntrospective() override {
    end(server_);
    end(trainer_);
    permits_.reset();
    host_.reset();
  }

  void admit(const policy::ShareClient& share) {
    const auto used = [this](pid_t pid) { return used_by(*machine_, pid); };
    ASSERT_TRUE(host_->admit(0, share, std::make_unique<DeviceMeter>(used)).ok());
  }
  pid_t start(const std::vector<const char*>& command) {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("SLUICE_PERMIT_SOCKET", (folder_ + "/permit.sock").c_str(), 1);
    setenv("LD_LIBRARY_PATH", SLUICE_EMULATED_DRIVER_FOLDER, 1);
    setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50", 1);
    setenv("LD_PRELOAD", SLUICE_CUDA_HOOK, 1);
    execl(command[0], command[0], command.size() > 1 ? command[1] : nullptr, nullptr);
    _exit(127);
  }
  static void end(pid_t& program) {
    if (program <= 0) return;
    kill(program, SIGKILL);
    waitpid(std::exchange(program, 0), nullptr, 0);
  }

  Nanos device_now() {
    const emulator::Machine::Lock lock(*machine_);
    return Nanos(lock->devices[0].now());
  }
  // Waits until over some 200 ms of the device's clock the trainer's share is as wished.
  template <typename Wished>
  testing::AssertionResult await_share(const char* what, Wished wished) {
    Nanos begin = device_now(), used = used_by(*machine_, trainer_);
    return eventually(what, [&] {
      const Nanos now = device_now();
      if (now - begin < Millis(200)) return false;
      const Nanos all = used_by(*machine_, trainer_);
      const double share =
          seconds(all - std::exchange(used, all)) / seconds(now - std::exchange(begin, now));
      return wished(share);
    });
  }
  testing::AssertionResult await_much() {
    return await_share("most of the time", [](double share) { return share > 0.6; });
  }
  testing::AssertionResult await_little() {
    return await_share("next to nothing", [](double share) { return share < 0.1; });
  }

  SteadyClock clock_;
  std::optional<node::ArbiterHost> host_;
  std::unique_ptr<node::PermitServer> permits_;
  pid_t server_ = 0, trainer_ = 0;
};

TEST_F(CudaIntrospective, SlowIterationsTakeFromTheOtherUntilTheyAreFastAgain) {
  EXPECT_TRUE(await_much()) << "while iterations are as fast as ever";
  kill(server_, SIGUSR1);
  EXPECT_TRUE(await_little());
  kill(server_, SIGUSR2);
  EXPECT_TRUE(await_much());
}

TEST_F(CudaIntrospective, AnEmergencyEndsWithTheProgramThatRaisedIt) {
  kill(server_, SIGUSR1);
  EXPECT_TRUE(await_little());
  end(server_);
  EXPECT_TRUE(await_much()) << "it is idle";
}

TEST_F(CudaIntrospective, AProgramThatLosesItsObjectiveLosesItsEmergency) {
  kill(server_, SIGUSR1);
  EXPECT_TRUE(await_little());
  ASSERT_TRUE(host_->change_share(0, {.id = kServer, .sm = {500}, .quota = {kWhole, kWhole}}).ok());
  EXPECT_TRUE(await_much());
}

}  // namespace
}  // namespace sluice
