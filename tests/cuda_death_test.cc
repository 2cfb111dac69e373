// The death matrix on a device (docs/design/cuda.md). An unmodified program is killed or stopped at
// every labelled step of its hook, beside a neighbour that always has work. The steps include those
// between a launch and its report, and between a charge and its allocation. Whatever the step,
//   - the neighbour goes on, and has the whole device while no other client can use it;
//   - everything that the device did for the program is charged, work in flight included;
//   - the ledger of memory never shows less than the device has; after a death it shows nothing,
//     and the next program has all of it;
//   - a stopped program goes on when it may.
// The emulated device's log decides. Every label of the hook must have been reached.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "enforce/permit_server.h"
#include "gpu/meter_cuda.h"
#include "tests/emulator/device_memory.h"
#include "tests/emulator/machine.h"
#include "tests/support/each_step.h"
#include "tests/support/eventually.h"
#include "tests/support/led_program.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr Nanos kPatience = Seconds(60);
constexpr policy::ClientId kVictim = 1, kNeighbour = 2;
constexpr Bytes kMib = Bytes{1} << 20;
constexpr Bytes kSlice = 64;  // MiB of memory
// Kernels launched before there were pages, or run between two polls.
constexpr Nanos kSome = Millis(3);

class CudaDeath : public testing::Test {
 protected:
  CudaDeath() : host_(clock_, {}), broker_(make_desk()) {
    emulator::MachineSpec spec;
    spec.memory = 1024 * kMib;
    spec.context_memory = 0;
    machine_ = emulator::Machine::open(folder_ / "gpu", spec);
    host_.add_device(*policy::make_arbiter("shares", {}), {}, 0);
    for (const policy::ClientId id : {kVictim, kNeighbour}) {
      const policy::ShareClient share{.id = id,
                                      .sm = kWhole,
                                      .quota = {{500}, kWhole},
                                      .position = {{0}, {id == kVictim ? 0 : 500}}};
      EXPECT_TRUE(
          host_.admit(0, share, std::make_unique<node::CudaMeter>(nullptr, clock_.now())).ok());
    }
    account_ = *broker_.open("victim", kSlice * kMib, nullptr);
    auto server = node::PermitServer::start(
        {.path = folder_ / "permit.sock"}, clock_,
        [this](const node::Peer& peer, uint32_t) { return place_of(peer.process.pid); }, &broker_);
    EXPECT_TRUE(server.ok());
    server_ = std::move(*server);
    {
      const std::lock_guard lock(mutex_);  // it asks for its pages when it is known
      neighbour_ = start(SLUICE_CUDA_GREEDY, SLUICE_CUDA_HOOK, "kernel");
    }
    EXPECT_TRUE(works(neighbour_));
  }
  ~CudaDeath() override {
    end(neighbour_);
    end(victim_);
    server_.reset();
    fs::remove_all(folder_);
  }

  node::MemoryBroker make_desk() {
    fs::create_directories(folder_);
    return node::MemoryBroker(clock_, 1, *node::MemoryRecord::open(folder_ / "record"));
  }
  // Every process but the neighbour is under the victim's slice.
  Result<node::Placement> place_of(pid_t pid) {
    const std::lock_guard lock(mutex_);
    const bool is_neighbour = pid == neighbour_;
    if (pid == victim_ && !before_pages_) before_pages_ = busy(pid);
    return node::Placement{&host_,
                           {0, is_neighbour ? kNeighbour : kVictim},
                           is_neighbour ? node::MemoryAccount{} : account_};
  }

  // ---- processes --------------------------------------------------------------------------------

  std::map<std::string, std::string> environment(const char* hook) const {
    return {{"SLUICE_EMULATED_GPU", folder_ / "gpu"},
            {"SLUICE_PERMIT_SOCKET", folder_ / "permit.sock"},
            {"LD_LIBRARY_PATH", SLUICE_EMULATED_DRIVER_FOLDER},
            {"LD_PRELOAD", hook},
            {kStepsVariable, plan_.environment(Role::kClient)}};
  }
  pid_t start(const char* program, const char* hook, const char* word = nullptr) {
    const auto variables = environment(hook);
    const pid_t pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    execl(program, program, word, nullptr);
    _exit(127);
  }
  void start_victim() {
    const std::lock_guard lock(mutex_);
    before_pages_.reset();
    charged_before_ = host_.state({0, kVictim})->used;
    victim_ = start(SLUICE_CUDA_WORKER, SLUICE_CUDA_HOOK_WITH_STEPS);
    ASSERT_GT(victim_, 0);
  }
  static void end(pid_t pid) {
    if (pid <= 0) return;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }

  // ---- figures of the device and the books ------------------------------------------------------

  // From the device's log, which keeps ended processes as well.
  Nanos busy(pid_t pid) {
    const emulator::Machine::Lock lock(*machine_);
    const emulator::DeviceModel& device = lock->devices[0];
    for (; read_ < device.log_end(); ++read_) {
      const emulator::Stretch& stretch = device.stretch(read_);
      busy_[stretch.process] += Nanos(stretch.end_ns - stretch.begin_ns);
    }
    return busy_[static_cast<uint32_t>(pid)];
  }
  Bytes on_device() { return static_cast<Bytes>(emulator::memory_in_use(*machine_, 0)); }
  testing::AssertionResult works(pid_t pid) {
    const Nanos before = busy(pid);
    return eventually("work on the device", [&] { return busy(pid) > before + Millis(3); });
  }
  // Beside a client that wants the device it has half of it.
  testing::AssertionResult neighbour_has_all() {
    constexpr Nanos kSpan = Millis(40);
    Nanos before = busy(neighbour_);
    Time since = clock_.now();
    return eventually("the neighbour to have the whole device", [&] {
      const Time now = clock_.now();
      if (now - since < kSpan) return false;
      const Nanos after = busy(neighbour_);
      const bool all = after - before > (now - since) * 7 / 10;
      before = after;
      since = now;
      return all;
    });
  }
  testing::AssertionResult all_is_charged() {
    return eventually("all to be charged", [&] {
      const std::lock_guard lock(mutex_);
      const Nanos worked = before_pages_ ? busy(victim_) - *before_pages_ : Nanos(0);
      return host_.state({0, kVictim})->used - charged_before_ + kSome >= worked;
    });
  }
  testing::AssertionResult book(int processes) {
    return eventually("the books to be right", [&] {
      const node::ClientState state = *host_.state({0, kVictim});
      return state.processes == processes && (processes > 0 || (!state.granted && !state.wanting));
    });
  }
  testing::AssertionResult memory_is_back() {
    return eventually("memory to be given back", [&] {
      return broker_.look(account_).held == 0 && broker_.look(account_).holders == 0;
    });
  }
  void expect_all_memory_for_the_next() {
    LedProgram next({SLUICE_CUDA_MEMORY}, environment(SLUICE_CUDA_HOOK));
    EXPECT_EQ(next.next().substr(0, 2), "0 ");
    EXPECT_EQ(next.ask("plain " + std::to_string(kSlice)).substr(0, 2), "0 ");
    EXPECT_EQ(next.ask("plain 2").substr(0, 2), "2 ") << "it is a limit";
  }

  // ---- the cells --------------------------------------------------------------------------------

  void bring_victim_to(const std::string& label, int signal) {
    plan_.arm(Role::kClient, label, signal);
    start_victim();
    ASSERT_TRUE(plan_.wait_for_hit(kPatience)) << "it did not come to this step";
    waitpid(victim_, nullptr, WUNTRACED);
  }

  void kill_at(const std::string& label) {
    bring_victim_to(label, SIGKILL);
    EXPECT_TRUE(works(neighbour_));
    EXPECT_TRUE(book(0));
    EXPECT_TRUE(all_is_charged());
    EXPECT_TRUE(memory_is_back());
    EXPECT_TRUE(neighbour_has_all());
    expect_all_memory_for_the_next();
    EXPECT_TRUE(memory_is_back());
  }

  void stop_at(const std::string& label) {
    bring_victim_to(label, SIGSTOP);
    EXPECT_GE(broker_.look(account_).held, on_device());
    EXPECT_TRUE(works(neighbour_));
    EXPECT_TRUE(all_is_charged());
    EXPECT_TRUE(neighbour_has_all());
    EXPECT_GE(broker_.look(account_).held, on_device()) << "nothing of it is lost meanwhile";
    kill(victim_, SIGCONT);
    EXPECT_TRUE(works(victim_));
    EXPECT_TRUE(book(1));
    EXPECT_TRUE(works(neighbour_));
    end(std::exchange(victim_, 0));
    EXPECT_TRUE(book(0));
    EXPECT_TRUE(memory_is_back());
  }

  static std::vector<std::string> hook_labels() {
    return labels_in({"hook/launches.cc", "hook/meter.cc", "hook/lane_ends.cc",
                      "hook/meter_room.cc", "hook/waits.cc", "hook/copies.cc", "hook/memory.h",
                      "hook/memory_account.cc", "hook/memory_pools.cc", "hook/memory_virtual.cc"});
  }

  const fs::path folder_ = testing::TempDir() + "cuda_death" + std::to_string(getpid());
  SteadyClock clock_;
  Plan plan_;
  std::unique_ptr<emulator::Machine> machine_;
  uint64_t read_ = 0;               // of its log; this and the next are under its lock
  std::map<uint32_t, Nanos> busy_;  // by pid
  node::ArbiterHost host_;
  node::MemoryBroker broker_;
  node::MemoryAccount account_ = 0;
  std::mutex mutex_;  // guards the next three, which the server's thread reads
  pid_t neighbour_ = 0, victim_ = 0;
  std::optional<Nanos> before_pages_;  // the victim's use when it asked for them
  Nanos charged_before_{0};
  std::unique_ptr<node::PermitServer> server_;
};

TEST_F(CudaDeath, AProgramKilledAtAnyStepOfItsHook) {
  at_each(plan_, hook_labels(), [&](const std::string& label) { kill_at(label); });
}

TEST_F(CudaDeath, AProgramStoppedAtAnyStepOfItsHook) {
  at_each(plan_, hook_labels(), [&](const std::string& label) { stop_at(label); });
}

}  // namespace
}  // namespace sluice
