// The death matrix on a device (docs/design/cuda.md): a program that knows nothing of Sluice is
// killed or stopped at every labelled step of its hook, between a launch and its report and between
// a charge and its allocation too, beside a neighbour that always has work. Whatever the step,
//   - the neighbour goes on, and has the whole device while nobody else can use it;
//   - all that the device did for the program is charged, what was in flight included;
//   - the ledger of memory never says less than the device has, and after a death says nothing, and
//     who comes next has all of it;
//   - who was stopped goes on when it may.
// The judge is the emulated device's log. Every label of the hook must have been come to.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/eventually_for_test.h"
#include "emulator/device_memory.h"
#include "emulator/machine.h"
#include "node/meter_cuda.h"
#include "node/permit_server.h"
#include "tests/each_step.h"
#include "tests/led_program.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr Nanos kPatience = Seconds(60);
constexpr policy::ClientId kVictim = 1, kNeighbour = 2;
constexpr Bytes kMib = Bytes{1} << 20;
constexpr Bytes kSlice = 64;  // MiB of memory
// Kernels that were launched before there were pages, or run between two of our looks.
constexpr Nanos kSome = Millis(3);

class CudaDeath : public testing::Test {
 protected:
  CudaDeath() : host_(clock_, {}), desk_(make_desk()) {
    emulator::MachineSpec spec;
    spec.memory = 1024 * kMib;
    spec.context_memory = 0;
    machine_ = emulator::Machine::open(folder_ / "gpu", spec);
    host_.add_device(*policy::make_arbiter(policy::kDefaultArbiter, {}), {}, 0);
    for (const policy::ClientId id : {kVictim, kNeighbour}) {
      const policy::ShareClient share{.id = id,
                                      .sm = kWhole,
                                      .quota = {{500}, kWhole},
                                      .position = {{0}, {id == kVictim ? 0 : 500}}};
      EXPECT_TRUE(
          host_.admit(0, share, std::make_unique<node::CudaMeter>(nullptr, clock_.now())).ok());
    }
    account_ = *desk_.open("victim", kSlice * kMib, nullptr);
    auto server = node::PermitServer::start(
        {.path = folder_ / "permit.sock"}, clock_,
        [this](const node::Peer& peer, uint32_t) { return place_of(peer.process.pid); }, &desk_);
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

  node::MemoryDesk make_desk() {
    fs::create_directories(folder_);
    return node::MemoryDesk(clock_, 1, *node::MemoryRecord::open(folder_ / "record"));
  }
  // Whoever is not the neighbour is under the victim's slice.
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
            {kStepsVariable, plan_.environment(Part::kClient)}};
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

  // ---- what the device and the books say --------------------------------------------------------

  // By the device's log, which knows the dead as well.
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
  // Beside one that wants the device it has half of it.
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
      return desk_.look(account_).held == 0 && desk_.look(account_).holders == 0;
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
    plan_.arm(Part::kClient, label, signal);
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
    EXPECT_GE(desk_.look(account_).held, on_device());
    EXPECT_TRUE(works(neighbour_));
    EXPECT_TRUE(all_is_charged());
    EXPECT_TRUE(neighbour_has_all());
    EXPECT_GE(desk_.look(account_).held, on_device()) << "nothing of it is lost meanwhile";
    kill(victim_, SIGCONT);
    EXPECT_TRUE(works(victim_));
    EXPECT_TRUE(book(1));
    EXPECT_TRUE(works(neighbour_));
    end(std::exchange(victim_, 0));
    EXPECT_TRUE(book(0));
    EXPECT_TRUE(memory_is_back());
  }

  static std::vector<std::string> hook_labels() {
    return labels_in({"hook/launches.cc", "hook/meter.cc", "hook/meter_finished.cc",
                      "hook/meter_room.cc", "hook/waits.cc", "hook/copies.cc", "hook/memory.h",
                      "hook/memory_account.cc", "hook/memory_graphs.cc", "hook/memory_pools.cc",
                      "hook/memory_virtual.cc"});
  }

  const fs::path folder_ = testing::TempDir() + "cuda_death" + std::to_string(getpid());
  SteadyClock clock_;
  Plan plan_;
  std::unique_ptr<emulator::Machine> machine_;
  uint64_t read_ = 0;               // of its log; this and the next under its lock
  std::map<uint32_t, Nanos> busy_;  // by pid
  node::ArbiterHost host_;
  node::MemoryDesk desk_;
  node::MemoryAccount account_ = 0;
  std::mutex mutex_;  // of the next three, which the server's thread looks at
  pid_t neighbour_ = 0, victim_ = 0;
  std::optional<Nanos> before_pages_;  // the victim had used when it asked for them
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
