// Many processes at once: 256 that attach in the same moment, and an instance that forks without
// end. Processes beyond a client's bound are refused, and other clients are not affected.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <climits>
#include <functional>

#include "enforce/meter_cpu.h"
#include "enforce/permit_server.h"
#include "tests/support/eventually.h"
#include "wire/permit.h"

namespace sluice {
namespace {

constexpr int kMost = 400;        // processes of a test
constexpr int kMostServed = 256;  // of one client (arbiter_host.cc)
constexpr policy::ClientId kClients = 4;

struct Board {
  struct Process {
    std::atomic<pid_t> pid;
    std::atomic<int> gate;  // sluice_gate_state
    std::atomic<uint32_t> refusal;
    std::atomic<uint64_t> units;
  };
  uint32_t go;  // a futex: 1 lets waiting processes begin
  std::atomic<int> born;
  Process processes[kMost];
};

class Crowd : public testing::Test {
 protected:
  Crowd() : host_(clock_, {}) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphaned grandchildren become ours, to be waited for
    board_ = new (mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0)) Board{};
    host_.add_device(*policy::make_arbiter("planned", {}), {}, 1000);
    for (policy::ClientId id = 0; id < kClients; ++id) {
      const policy::ShareClient share{.id = id,
                                      .sm = kWhole,
                                      .quota = {{1000 / static_cast<int>(kClients)}, kWhole},
                                      .position = {{0}, {250 * static_cast<int>(id)}}};
      EXPECT_TRUE(host_
                      .admit(0, share,
                             std::make_unique<node::CpuMeter>(
                                 std::make_unique<node::ProcessCounter>(), 1000, clock_.now()))
                      .ok());
    }
    // Each process is the client of its device number.
    auto server = node::PermitServer::start(
        {.path = socket_}, clock_, [this](const node::Peer&, uint32_t device) {
          return Result<node::Placement>(node::Placement{&host_, {0, device}});
        });
    EXPECT_TRUE(server.ok());
    server_ = std::move(*server);
  }
  ~Crowd() override {
    kill_all();
    unlink(socket_.c_str());
    munmap(board_, sizeof(Board));
  }

  // A new process takes the next place, or ends if none is left.
  Board::Process& take_place() {
    const int place = board_->born++;
    if (place >= kMost) _exit(0);
    Board::Process& mine = board_->processes[place];
    mine.pid = getpid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return mine;
  }
  void start(const std::function<void(Board::Process&)>& life) {
    if (fork() != 0) return;
    life(take_place());
    _exit(0);
  }
  // Waits until there is an answer, or another question is due.
  static void wait_for_turn(const sluice_process& p) {
    const auto left = static_cast<int64_t>(p.next_ns - sluice_clock(CLOCK_MONOTONIC));
    pollfd answer{p.talking != 0 ? p.sock : -1, POLLIN, 0};
    poll(&answer, 1, static_cast<int>(std::max<int64_t>(left, 0) / 1'000'000) + 1);
  }
  // Asks for pages until it has them or is refused, reports that, and stays.
  void attach_and_stay(Board::Process& mine, policy::ClientId client) {
    sluice_gate gate{.socket_path = socket_.c_str(), .device = client};
    sluice_process* process = sluice_process_of(&gate);
    while (sluice_gate_state(&gate) != SLUICE_GATE_ATTACHED && process->refusal == 0) {
      sluice_attach_first(&gate, process);
      wait_for_turn(*process);
    }
    mine.refusal = process->refusal;
    mine.gate = sluice_gate_state(&gate);
    for (;;) pause();
  }
  void work(Board::Process& mine, policy::ClientId client) {
    sluice_gate gate{.socket_path = socket_.c_str(), .device = client};
    sluice_thread* thread = nullptr;
    for (;;) {
      sluice_gate_pass(&gate, &thread);
      ++mine.units;
      mine.gate = sluice_gate_state(&gate);
    }
  }

  static void end(Board::Process& process) {
    if (const pid_t pid = process.pid.exchange(0); pid > 0) kill(pid, SIGKILL);
  }
  void kill_all() {
    for (Board::Process& p : board_->processes) end(p);
    while (waitpid(-1, nullptr, 0) > 0) {
    }
  }
  int count(const std::function<bool(const Board::Process&)>& holds) const {
    return static_cast<int>(
        std::count_if(std::begin(board_->processes), std::end(board_->processes), holds));
  }
  int served(policy::ClientId client) { return host_.state({0, client})->processes; }

  const std::string socket_ = testing::TempDir() + "crowd" + std::to_string(getpid()) + ".sock";
  SteadyClock clock_;
  node::ArbiterHost host_;
  std::unique_ptr<node::PermitServer> server_;
  Board* board_ = nullptr;
};

bool attached(const Board::Process& p) {
  return p.gate == SLUICE_GATE_ATTACHED;
}

TEST_F(Crowd, TwoHundredAndFiftySixAttachAtOnce) {
  constexpr int kProcesses = 256;
  for (int i = 0; i < kProcesses; ++i)
    start([this, i](Board::Process& mine) {
      while (__atomic_load_n(&board_->go, __ATOMIC_ACQUIRE) == 0)
        sluice_futex(&board_->go, FUTEX_WAIT, 0, nullptr);
      attach_and_stay(mine, static_cast<policy::ClientId>(i) % kClients);
    });
  ASSERT_TRUE(eventually("all to be born", [&] { return board_->born == kProcesses; }));
  __atomic_store_n(&board_->go, 1, __ATOMIC_RELEASE);
  sluice_futex(&board_->go, FUTEX_WAKE, INT_MAX, nullptr);
  EXPECT_TRUE(eventually("all to be attached", [&] { return count(attached) == kProcesses; }));
  for (policy::ClientId id = 0; id < kClients; ++id)
    EXPECT_EQ(served(id), kProcesses / static_cast<int>(kClients));
  kill_all();
  for (policy::ClientId id = 0; id < kClients; ++id)
    EXPECT_TRUE(eventually("their places to be free", [&] { return served(id) == 0; }));
}

TEST_F(Crowd, AForkBombTakesItsOwnPlacesAndIsRefusedMore) {
  start([this](Board::Process& mine) { work(mine, 1); });
  Board::Process& neighbour = board_->processes[0];
  ASSERT_TRUE(eventually("the neighbour", [&] { return attached(neighbour); }));
  start([this](Board::Process& first) {  // each has two children, which have two …
    Board::Process* mine = &first;
    for (int children = 0; children < 2; ++children) {
      if (fork() != 0) continue;
      mine = &take_place();
      children = -1;
    }
    attach_and_stay(*mine, 0);
  });
  const auto refused = [](const Board::Process& p) { return p.refusal == SLUICE_REFUSED_BUSY; };
  EXPECT_TRUE(eventually("every process to be served or refused",
                         [&] { return count(attached) + count(refused) == kMost; }));
  EXPECT_EQ(served(0), kMostServed);
  EXPECT_EQ(count(refused), kMost - 1 - kMostServed);
  const uint64_t before = neighbour.units;
  EXPECT_TRUE(eventually("the neighbour's work", [&] { return neighbour.units > before + 1000; }));
  EXPECT_TRUE(attached(neighbour));
  for (Board::Process& p : board_->processes)
    if (&p != &neighbour) end(p);
  EXPECT_TRUE(eventually("the places to be free", [&] { return served(0) == 0; }));
}

}  // namespace
}  // namespace sluice
