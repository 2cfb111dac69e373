// permit.sock with clients that are processes: they attach, fork, are stopped and killed, and the
// daemon comes and goes.
#include "enforce/permit_server.h"

#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <atomic>
#include <cstring>
#include <new>

#include "enforce/meter_cpu.h"
#include "tests/support/eventually.h"
#include "tests/support/turns.h"
#include "wire/permit.h"

namespace sluice::node {
namespace {

struct Shared {
  std::atomic<uint64_t> passed;
  std::atomic<uint32_t> generation;
  std::atomic<int> state;
  std::atomic<pid_t> grandchild;
};

// A process that passes units of work for ever, and reports how many.
class ClientProcess {
 public:
  enum Behaviour { kWork, kForkAndWork };

  ClientProcess(const std::string& path, uint32_t device, Behaviour behaviour = kWork)
      : shared_(new (mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared{}) {
    pid_ = fork();
    if (pid_ != 0) return;
    gate_ = {.socket_path = path.c_str(), .device = device};
    if (behaviour == kForkAndWork) {
      pass_once();
      const pid_t child = fork();
      if (child != 0) {
        shared_->grandchild = child;
        waitpid(child, nullptr, 0);
        _exit(0);
      }
    }
    for (;;) pass_once();
  }
  ~ClientProcess() {
    if (shared_->grandchild != 0) kill(shared_->grandchild, SIGKILL);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    munmap(shared_, sizeof(Shared));
  }

  pid_t pid() const { return pid_; }
  void signal(int number) { kill(pid_, number); }
  uint64_t passed() const { return shared_->passed; }
  Shared& shared() { return *shared_; }
  testing::AssertionResult gets_on() {
    const uint64_t before = passed();
    return eventually("100 units of work", [&] { return passed() > before + 100; });
  }
  testing::AssertionResult is_attached(uint32_t generation) {
    return eventually("the gate to be attached", [&] {
      return shared_->state == SLUICE_GATE_ATTACHED && shared_->generation == generation;
    });
  }

 private:
  void pass_once() {
    sluice_gate_pass(&gate_, &mine_);
    ++shared_->passed;
    if (shared_->passed % 64 != 0) return;
    shared_->state = sluice_gate_state(&gate_);
    const sluice_attachment* at = gate_.process->current;
    shared_->generation = at != nullptr ? at->permit->header.generation : 0;
  }

  Shared* shared_;
  pid_t pid_ = 0;
  sluice_gate gate_{};
  sluice_thread* mine_ = nullptr;
};

class PermitServerTest : public testing::Test {
 protected:
  PermitServerTest() : path(testing::TempDir() + "/permit-" + std::to_string(getpid())) { start(); }
  ~PermitServerTest() override {
    stop();
    unlink(path.c_str());
  }

  void start() {
    host.emplace(clock, HostConfig{.generation = ++generation});
    const DeviceNumber device = host->add_device(std::make_unique<policy::TestTurns>(), {}, 1000);
    for (policy::ClientId id = 0; id < 2; ++id) {
      const policy::ShareClient share{
          .id = id, .sm = kWhole, .quota = {{500}, {1000}}, .position = {}};
      auto meter =
          std::make_unique<CpuMeter>(std::make_unique<ProcessCounter>(), 1000, clock.now());
      ASSERT_TRUE(host->admit(device, share, std::move(meter)).ok());
    }
    // Each process is the client of its device number. Lookup is not tested here.
    auto lookup = [this, device](const Peer& peer, uint32_t n) -> Result<Placement> {
      last_peer = peer.process.pid;
      if (n >= 2) return Error{ErrorKind::kNotFound, "this process holds no slice here"};
      return Placement{&*host, {device, n}};
    };
    auto started = PermitServer::start({.path = path, .generation = generation}, clock, lookup);
    ASSERT_TRUE(started.ok()) << started.error().message;
    server = std::move(*started);
  }
  void stop() {
    server.reset();
    host.reset();
  }
  int processes_of(policy::ClientId id) { return host->state({0, id})->processes; }

  // Sends bytes. Returns the answer; empty if the connection was closed.
  std::string ask(std::string_view bytes) {
    const Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    path.copy(to.sun_path, path.size());
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    EXPECT_EQ(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    std::string answer(512, 0);
    const ssize_t n = recv(fd.get(), answer.data(), answer.size(), 0);
    answer.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return answer;
  }

  const std::string path;
  SteadyClock clock;
  uint32_t generation = 0;
  std::optional<ArbiterHost> host;
  std::unique_ptr<PermitServer> server;
  std::atomic<pid_t> last_peer{0};
};

sluice_hello hello(uint32_t device = 0) {
  sluice_hello h{};
  h.head = {SLUICE_HELLO_MAGIC, SLUICE_WIRE_VERSION, SLUICE_HELLO};
  h.device = device;
  return h;
}
template <class M>
std::string bytes_of(const M& message) {
  return {reinterpret_cast<const char*>(&message), sizeof message};
}

TEST_F(PermitServerTest, AProcessAttachesAndWorks) {
  ClientProcess client(path, 0);
  EXPECT_TRUE(client.is_attached(1));
  EXPECT_TRUE(client.gets_on());
  EXPECT_EQ(last_peer, client.pid());
  EXPECT_EQ(processes_of(0), 1);
}

TEST_F(PermitServerTest, WhatIsNotAHelloIsRefusedWithItsReason) {
  sluice_hello magic = hello(), version = hello(), type = hello();
  magic.head.magic ^= 1;
  version.head.version = SLUICE_WIRE_VERSION + 1;
  type.head.type = SLUICE_WELCOME;
  const struct {
    std::string bytes;
    uint32_t reason;
  } kTable[] = {
      {"x", SLUICE_REFUSED_MALFORMED},
      {bytes_of(hello()).substr(0, sizeof(sluice_hello) - 1), SLUICE_REFUSED_MALFORMED},
      {bytes_of(magic), SLUICE_REFUSED_MALFORMED},
      {bytes_of(type), SLUICE_REFUSED_MALFORMED},
      {bytes_of(version), SLUICE_REFUSED_VERSION},
      {bytes_of(hello(7)), SLUICE_REFUSED_UNKNOWN},
      {std::string(60'000, 'x'), SLUICE_REFUSED_MALFORMED},
  };
  for (const auto& row : kTable) {
    const std::string answer = ask(row.bytes);
    ASSERT_EQ(answer.size(), sizeof(sluice_refused));
    sluice_refused refused;
    std::memcpy(&refused, answer.data(), sizeof refused);
    EXPECT_EQ(refused.head.type, static_cast<uint32_t>(SLUICE_REFUSED));
    EXPECT_EQ(refused.reason, row.reason);
    EXPECT_NE(refused.text[0], 0);
  }
  // A newer client's longer HELLO is read by its known part.
  EXPECT_EQ(ask(bytes_of(hello()) + "and more").size(), sizeof(sluice_welcome));
}

TEST_F(PermitServerTest, AConnectionThatSaysNothingIsClosed) {
  const Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  path.copy(to.sun_path, path.size());
  ASSERT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  char byte;
  EXPECT_EQ(recv(fd.get(), &byte, 1, 0), 0);
}

TEST_F(PermitServerTest, AProcessThatHoldsNoSliceRunsUngatedAndKnowsIt) {
  ClientProcess client(path, 7);
  EXPECT_TRUE(client.gets_on());
  EXPECT_EQ(client.shared().state, SLUICE_GATE_OPEN);
}

TEST_F(PermitServerTest, AForkedChildAttachesAsAProcessOfItsOwn) {
  ClientProcess client(path, 0, ClientProcess::kForkAndWork);
  EXPECT_TRUE(eventually("the fork", [&] { return client.shared().grandchild != 0; }));
  EXPECT_TRUE(
      eventually("the child to ask", [&] { return last_peer == client.shared().grandchild; }));
  EXPECT_TRUE(client.is_attached(1));
  EXPECT_TRUE(client.gets_on());
  EXPECT_TRUE(eventually("both to be attached", [&] { return processes_of(0) == 2; }));
}

TEST_F(PermitServerTest, AKilledClientLeavesItsShareToOthers) {
  auto victim = std::make_unique<ClientProcess>(path, 0);
  ClientProcess neighbour(path, 1);
  EXPECT_TRUE(victim->gets_on());
  EXPECT_TRUE(neighbour.gets_on());
  victim->signal(SIGKILL);
  EXPECT_TRUE(eventually("the dead one to be dropped", [&] { return processes_of(0) == 0; }));
  EXPECT_FALSE(host->state({0, 0})->granted);
  EXPECT_TRUE(neighbour.gets_on());
}

TEST_F(PermitServerTest, AStoppedHolderLetsItsNeighbourRun) {
  ClientProcess holder(path, 0), neighbour(path, 1);
  EXPECT_TRUE(holder.is_attached(1));
  EXPECT_TRUE(neighbour.is_attached(1));
  for (int round = 0; round < 5; ++round) {
    EXPECT_TRUE(eventually("a permit", [&] { return host->state({0, 0})->granted; }));
    holder.signal(SIGSTOP);
    EXPECT_TRUE(neighbour.gets_on());
    holder.signal(SIGCONT);
    EXPECT_TRUE(holder.gets_on());
  }
}

TEST_F(PermitServerTest, ClientsGoOnWithoutTheDaemonAndComeBackToTheNext) {
  ClientProcess client(path, 0);
  EXPECT_TRUE(client.is_attached(1));
  for (uint32_t next = 2; next <= 3; ++next) {
    stop();
    EXPECT_TRUE(eventually("the gate to be alone",
                           [&] { return client.shared().state == SLUICE_GATE_ALONE; }));
    EXPECT_TRUE(client.gets_on());
    start();
    EXPECT_TRUE(client.is_attached(next));
    EXPECT_TRUE(client.gets_on());
  }
}

// Inside a pid namespace a process outside of it has no number, so it cannot be served.
TEST(Peer, WithoutAVisiblePidIsRefused) {
  const std::string path = testing::TempDir() + "/peer-" + std::to_string(getpid());
  const Fd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  path.copy(at.sun_path, path.size());
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  const Fd client(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  unlink(path.c_str());

  constexpr int kDenied = 0, kAccepted = 1, kNoNamespaces = 2;
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWPID) != 0) _exit(kNoNamespaces);
    const pid_t inner = fork();
    if (inner == 0) {
      const Fd accepted(accept(listener.get(), nullptr, nullptr));
      _exit(identify_peer(accepted.get()).ok() ? kAccepted : kDenied);
    }
    int status = 0;
    waitpid(inner, &status, 0);
    _exit(WEXITSTATUS(status));
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WEXITSTATUS(status) == kNoNamespaces) GTEST_SKIP() << "no pid namespaces without root";
  EXPECT_EQ(WEXITSTATUS(status), kDenied);
}

}  // namespace
}  // namespace sluice::node
