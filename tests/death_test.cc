// The death matrix (docs/design/permits.md): a client, or the daemon, is killed or stopped at every
// labelled step of the protocol, beside a neighbour that always has work. Whatever the step,
//   - the neighbour goes on, and has the dead client's share, the whole device, while no other
//     client wants it;
//   - the daemon's books show no process, and the next process of that client is served;
//   - a stopped process goes on when it may;
//   - a daemon's clients go on without it, and attach to the next one.
// Every label in the sources must have been reached.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <fstream>
#include <utility>

#include "enforce/meter_cpu.h"
#include "enforce/permit_server.h"
#include "tests/support/each_step.h"
#include "tests/support/eventually.h"
#include "wire/permit.h"

namespace sluice {
namespace {

constexpr int kMillicores = 1000;
constexpr Nanos kPatience = Seconds(60);
constexpr policy::ClientId kVictim = 1, kNeighbour = 2;
constexpr int kClients = 3;  // places, by id

// Shared by the test, its daemons and its clients.
struct Board {
  struct Client {
    std::atomic<pid_t> pid;
    std::atomic<uint64_t> units;
    std::atomic<int> gate;             // sluice_gate_state
    std::atomic<uint32_t> generation;  // of its pages
    std::atomic<uint64_t> budget_ns;   // on its permit page
  };
  struct Book {  // the daemon's, of a client
    std::atomic<int> processes;
    std::atomic<bool> granted, wanting;
  };
  Client clients[kClients];
  Book books[kClients];  // as the daemon wrote them at the last question
};

void burn(Nanos cpu) {
  const uint64_t start = sluice_clock(CLOCK_THREAD_CPUTIME_ID);
  while (Nanos(sluice_clock(CLOCK_THREAD_CPUTIME_ID) - start) < cpu) {
  }
}

// Rests, as part of a client's life: it wants nothing meanwhile.
void rest(Nanos time) {
  const timespec span{0, static_cast<long>(time.count())};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &span, nullptr);
}

class DeathMatrix : public testing::Test {
 protected:
  DeathMatrix() {
    void* memory =
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    board_ = new (memory) Board{};
    start_daemon();
    start_client(kNeighbour);
    EXPECT_TRUE(eventually("the neighbour's first unit", [&] {
      return neighbour().units > 0 && neighbour().gate == SLUICE_GATE_ATTACHED;
    }));
  }
  ~DeathMatrix() override {
    for (policy::ClientId id = 1; id < kClients; ++id) end_client(id);
    end(daemon_);
    unlink(socket_.c_str());
    munmap(board_, sizeof(Board));
  }

  // ---- processes --------------------------------------------------------------------------------

  static void end(pid_t pid) {
    if (pid <= 0) return;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  void end_client(policy::ClientId id) { end(board_->clients[id].pid.exchange(0)); }
  template <class Life>
  static pid_t fork_as(Role role, Life life) {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Plan::play(role);
    life();
    _exit(0);
  }

  void start_daemon() {
    ++generation_;
    int ends[2];
    SLUICE_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    line_ = Fd(ends[0]);
    Fd daemons(ends[1]);
    daemon_ = fork_as(Role::kDaemon, [&] { run_daemon(std::move(daemons)); });
    daemons.reset();
    EXPECT_TRUE(heard()) << "no daemon";
  }
  // Returns whether the daemon has answered, rather than ended.
  bool heard() {
    pollfd answer{line_.get(), POLLIN, 0};
    char word;
    return poll(&answer, 1, static_cast<int>(kPatience / Millis(1))) == 1 &&
           read(line_.get(), &word, 1) == 1;
  }
  bool ask_for_books() { return send(line_.get(), "", 1, MSG_NOSIGNAL) == 1 && heard(); }
  [[noreturn]] void run_daemon(const Fd& line) {
    SteadyClock clock;
    node::ArbiterHost host(clock, {.generation = generation_});
    host.add_device(*policy::make_arbiter("planned", {}), {}, kMillicores);
    for (const policy::ClientId id : {kVictim, kNeighbour}) {
      const policy::ShareClient share{.id = id,
                                      .sm = kWhole,
                                      .quota = {{500}, kWhole},
                                      .position = {{0}, {id == kVictim ? 0 : 500}}};
      const auto admitted =
          host.admit(0, share,
                     std::make_unique<node::CpuMeter>(std::make_unique<node::ProcessCounter>(),
                                                      kMillicores, clock.now()));
      if (!admitted.ok()) _exit(1);
    }
    const auto server =
        node::PermitServer::start({.path = socket_, .generation = generation_}, clock,
                                  [&](const node::Peer& peer, uint32_t) -> Result<node::Placement> {
                                    for (policy::ClientId id = 1; id < kClients; ++id)
                                      if (board_->clients[id].pid == peer.process.pid)
                                        return node::Placement{&host, {0, id}};
                                    return Error{ErrorKind::kNotFound, "no slice"};
                                  });
    if (!server.ok()) _exit(1);
    for (char word = 0; write(line.get(), &word, 1) == 1 && read(line.get(), &word, 1) == 1;) {
      for (policy::ClientId id = 1; id < kClients; ++id) {
        const auto state = host.state({0, id});
        board_->books[id].processes = state->processes;
        board_->books[id].granted = state->granted;
        board_->books[id].wanting = state->wanting;
      }
    }
    _exit(0);
  }

  // Starts a client that works, and rests for a moment now and then.
  void start_client(policy::ClientId id) {
    Board::Client& mine = board_->clients[id];
    mine.units = 0;
    mine.gate = SLUICE_GATE_OPEN;
    const pid_t pid = fork_as(id == kVictim ? Role::kClient : Role::kNone, [this, id, &mine] {
      mine.pid = getpid();  // the daemon identifies it by this; the parent may set it later
      sluice_gate gate{.socket_path = socket_.c_str()};
      sluice_thread* thread = nullptr;
      for (;;) {
        for (int unit = 0; unit < 300; ++unit) {
          sluice_gate_pass(&gate, &thread);
          burn(Micros(100));
          ++mine.units;
          mine.gate = sluice_gate_state(&gate);
          if (const sluice_attachment* at = sluice_attached(&gate)) {
            mine.budget_ns = __atomic_load_n(&at->permit->budget_ns, __ATOMIC_RELAXED);
            mine.generation = at->permit->header.generation;
          }
        }
        if (id != kVictim) continue;
        sluice_hint_iteration(&gate, 1, 0);
        sluice_gate_idle_begin(thread);
        rest(Micros(500));
      }
    });
    ASSERT_GT(pid, 0);
    mine.pid = pid;
  }

  // ---- what must hold ---------------------------------------------------------------------------

  Board::Client& neighbour() { return board_->clients[kNeighbour]; }
  Board::Client& victim() { return board_->clients[kVictim]; }

  static testing::AssertionResult works(Board::Client& client) {
    const uint64_t before = client.units;
    return eventually("units of work", [&] { return client.units >= before + 20; });
  }
  testing::AssertionResult attached(Board::Client& client) {
    return eventually("it to be attached to the daemon that lives", [&] {
      return client.gate == SLUICE_GATE_ATTACHED && client.generation == generation_;
    });
  }
  // Beside a client that wants the device it gets at most 10 ms a window. For three windows, and
  // while it works, it has more.
  testing::AssertionResult neighbour_has_all() {
    uint64_t since = neighbour().units;
    int looks = 0;
    return eventually("the neighbour to have the whole device", [&] {
      if (Nanos(neighbour().budget_ns) < Millis(15)) {
        since = neighbour().units;
        looks = 0;
      }
      return ++looks > 60 && neighbour().units > since + 20;
    });
  }
  testing::AssertionResult book_of_victim(int processes) {
    return eventually("the daemon's books to be right", [&] {
      if (!ask_for_books()) return false;
      const Board::Book& book = board_->books[kVictim];
      return book.processes == processes && (processes > 0 || (!book.granted && !book.wanting));
    });
  }

  // ---- the cells --------------------------------------------------------------------------------

  void kill_client_at(const std::string& label) {
    plan_.arm(Role::kClient, label, SIGKILL);
    start_client(kVictim);
    ASSERT_TRUE(plan_.wait_for_hit(kPatience)) << "nobody came to this step";
    waitpid(victim().pid.exchange(0), nullptr, 0);
    EXPECT_TRUE(works(neighbour()));
    EXPECT_TRUE(book_of_victim(0));
    EXPECT_TRUE(neighbour_has_all());
    start_client(kVictim);
    EXPECT_TRUE(attached(victim()));
    EXPECT_TRUE(works(victim()));
    EXPECT_TRUE(book_of_victim(1));
    end_client(kVictim);
    EXPECT_TRUE(book_of_victim(0));
  }

  void stop_client_at(const std::string& label) {
    plan_.arm(Role::kClient, label, SIGSTOP);
    start_client(kVictim);
    ASSERT_TRUE(plan_.wait_for_hit(kPatience)) << "nobody came to this step";
    waitpid(victim().pid, nullptr, WUNTRACED);
    EXPECT_TRUE(works(neighbour()));
    EXPECT_TRUE(neighbour_has_all());
    kill(victim().pid, SIGCONT);
    EXPECT_TRUE(attached(victim()));
    EXPECT_TRUE(works(victim()));
    EXPECT_TRUE(book_of_victim(1));
    EXPECT_TRUE(works(neighbour()));
    end_client(kVictim);
    EXPECT_TRUE(book_of_victim(0));
  }

  // Starts and ends processes until the daemon reaches the label.
  void bring_daemon_to(const std::string& label, int signal) {
    plan_.arm(Role::kDaemon, label, signal);
    for (int attempt = 0; attempt < 100 && plan_.hit() == 0; ++attempt) {
      end_client(kVictim);
      start_client(kVictim);
      (void)plan_.wait_for_hit(Millis(200));
    }
    ASSERT_EQ(plan_.hit(), daemon_) << "nobody came to this step";
  }

  void kill_daemon_at(const std::string& label) {
    bring_daemon_to(label, SIGKILL);
    waitpid(std::exchange(daemon_, 0), nullptr, 0);
    EXPECT_TRUE(works(neighbour())) << "without a daemon";
    EXPECT_TRUE(works(victim()));
    start_daemon();
    expect_all_is_well();
  }

  void stop_daemon_at(const std::string& label) {
    bring_daemon_to(label, SIGSTOP);
    waitpid(daemon_, nullptr, WUNTRACED);
    EXPECT_TRUE(works(neighbour())) << "while it stands";
    EXPECT_TRUE(works(victim()));
    kill(daemon_, SIGCONT);
    expect_all_is_well();
  }

  void expect_all_is_well() {
    EXPECT_TRUE(attached(neighbour()));
    EXPECT_TRUE(attached(victim()));
    EXPECT_TRUE(works(neighbour()));
    EXPECT_TRUE(works(victim()));
    EXPECT_TRUE(book_of_victim(1));
    end_client(kVictim);
    EXPECT_TRUE(book_of_victim(0));
    EXPECT_TRUE(neighbour_has_all());
  }

  static std::vector<std::string> client_labels() {
    return labels_in({"wire/permit_attach.h", "wire/permit_gate.h", "wire/permit_hints.h"});
  }
  static std::vector<std::string> daemon_labels() {
    auto labels = labels_in({"wire/permit_page.h", "enforce/arbiter_host.cc",
                             "enforce/arbiter_host_device.cc", "enforce/permit_server.cc"});
    std::erase(labels, "decide: allowed");  // a GPU's: node_gpu_death_test.cc
    return labels;
  }

  const std::string socket_ = testing::TempDir() + "death" + std::to_string(getpid()) + ".sock";
  Plan plan_;
  Board* board_ = nullptr;
  uint32_t generation_ = 0;
  pid_t daemon_ = 0;
  Fd line_;  // to the daemon, which answers each word once it has written its books
};

TEST_F(DeathMatrix, AClientKilledAtAnyStep) {
  at_each(plan_, client_labels(), [&](const std::string& label) { kill_client_at(label); });
}

TEST_F(DeathMatrix, AClientStoppedAtAnyStep) {
  at_each(plan_, client_labels(), [&](const std::string& label) { stop_client_at(label); });
}

TEST_F(DeathMatrix, ADaemonKilledAtAnyStep) {
  at_each(plan_, daemon_labels(), [&](const std::string& label) { kill_daemon_at(label); });
}

TEST_F(DeathMatrix, ADaemonStoppedAtAnyStep) {
  at_each(plan_, daemon_labels(), [&](const std::string& label) { stop_daemon_at(label); });
}

// ---- what is released ---------------------------------------------------------------------------

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Release, HoldsNoSteps) {
  const std::string here = contents("/proc/self/exe");
  EXPECT_NE(here.find("sluice_step"), here.npos) << "a test build has them";
  EXPECT_NE(here.find("block: waiting"), here.npos);
  for (const char* path : {SLUICE_RELEASED}) {
    const std::string released = contents(path);
    EXPECT_GT(released.size(), 1000u) << path;
    EXPECT_EQ(released.find("sluice_step"), released.npos) << path;
    for (const std::string& label : all_labels())
      EXPECT_EQ(released.find(label), released.npos) << path << ": " << label;
  }
}

}  // namespace
}  // namespace sluice
