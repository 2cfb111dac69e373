// Memory over permit.sock for processes that reconnect, misbehave and are killed.
#include "enforce/memory_broker.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "enforce/permit_server.h"
#include "tests/support/eventually.h"
#include "wire/permit_attach.h"

namespace sluice::node {
namespace {

// A connection to permit.sock, driven by the test.
class MemoryClient {
 public:
  explicit MemoryClient(const std::string& path)
      : socket_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un to{.sun_family = AF_UNIX};
    path.copy(to.sun_path, sizeof to.sun_path - 1);
    EXPECT_EQ(connect(socket_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }

  template <class M>
  void send(const M& message) {
    EXPECT_EQ(::send(socket_.get(), &message, sizeof message, MSG_NOSIGNAL),
              static_cast<ssize_t>(sizeof message));
  }
  // Returns the answer's bytes; none if the connection was closed.
  template <class M>
  std::optional<M> receive(int fds[3] = nullptr) {
    pollfd readable{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&readable, 1, 60'000), 1);
    M message{};
    int spare[3];
    const long n = sluice_receive(socket_.get(), &message, sizeof message, fds ? fds : spare);
    if (n != static_cast<long>(sizeof message)) return std::nullopt;
    return message;
  }

  std::optional<Bytes> join(Bytes used = 0) {
    sluice_memory_hello hello{};
    hello.head = {SLUICE_HELLO_MAGIC, SLUICE_WIRE_VERSION, SLUICE_MEMORY_HELLO};
    hello.used = static_cast<uint64_t>(used);
    send(hello);
    int fds[3];
    const auto welcome = receive<sluice_memory_welcome>(fds);
    if (!welcome || welcome->head.type != SLUICE_MEMORY_WELCOME) return std::nullopt;
    page_.reset(fds[0]);
    return static_cast<Bytes>(welcome->held);
  }
  std::optional<Bytes> hold(uint64_t least, uint64_t most) {
    sluice_hold hold{};
    hold.head = {SLUICE_HELLO_MAGIC, SLUICE_WIRE_VERSION, SLUICE_HOLD};
    hold.request = ++request_;
    hold.least = least;
    hold.most = most;
    send(hold);
    const auto held = receive<sluice_held>();
    if (!held || held->request != request_) return std::nullopt;
    return static_cast<Bytes>(held->held);
  }
  int page() const { return page_.get(); }
  std::optional<sluice_memory_seen> look(uint32_t device = 0) {
    send(sluice_memory_look{.head = {SLUICE_HELLO_MAGIC, SLUICE_WIRE_VERSION, SLUICE_MEMORY_LOOK},
                            .device = device});
    return receive<sluice_memory_seen>();
  }

 private:
  Fd socket_, page_;
  uint64_t request_ = 0;
};

// The device's account, driven by the test.
class ScriptedDevice : public DeviceAccount {
 public:
  std::optional<DeviceUse> latest(pid_t) const override { return std::nullopt; }
  std::optional<DeviceMemory> memory(pid_t) const override {
    const std::lock_guard lock(mutex_);
    return says_;
  }
  void say(DeviceMemory what) {
    const std::lock_guard lock(mutex_);
    says_ = what;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<DeviceMemory> says_;
};

class MemoryBrokerTest : public testing::Test {
 protected:
  MemoryBrokerTest() { begin(); }
  ~MemoryBrokerTest() override {
    server.reset();
    unlink(path.c_str());
    unlink(record.c_str());
  }

  // Starts a daemon after another that was killed.
  void begin() {
    server.reset();
    broker = std::make_unique<MemoryBroker>(clock, 1, *MemoryRecord::open(record));
    account = *broker->open("slice", kLimit, device);
    auto started = PermitServer::start(
        {.path = path, .generation = 1}, clock,
        [this](const Peer&, uint32_t which) -> Result<Placement> {
          return Placement{.memory = which == 0 ? account : 0};
        },
        broker.get());
    EXPECT_TRUE(started.ok());
    server = std::move(*started);
  }
  Bytes held() const { return broker->look(account).held; }

  static Fd self() { return std::move(*open_process(*identity_of(getpid()))); }

  static constexpr Bytes kLimit = 1000;
  const std::string path = testing::TempDir() + "/memory-" + std::to_string(getpid());
  const std::string record = path + ".record";
  SteadyClock clock;
  const std::shared_ptr<ScriptedDevice> device = std::make_shared<ScriptedDevice>();
  std::unique_ptr<MemoryBroker> broker;
  MemoryAccount account = 0;
  std::unique_ptr<PermitServer> server;
};

// Another process, which holds so much and sends nothing more.
class Holder {
 public:
  Holder(const std::string& path, uint64_t bytes) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    pid_ = fork();
    if (pid_ == 0) {
      MemoryClient client(path);
      const bool good =
          client.join() == 0 && client.hold(bytes, bytes) == static_cast<Bytes>(bytes);
      (void)!write(ready[1], &good, sizeof good);
      for (;;) pause();
    }
    bool good = false;
    EXPECT_EQ(read(ready[0], &good, sizeof good), static_cast<ssize_t>(sizeof good));
    EXPECT_TRUE(good);
    close(ready[0]);
    close(ready[1]);
  }
  ~Holder() { kill(); }
  Holder(const Holder&) = delete;

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
};

TEST_F(MemoryBrokerTest, AProcessHoldsMemoryAndThePageShowsIt) {
  MemoryClient client(path);
  EXPECT_EQ(client.join(), 0);
  const auto* page = static_cast<const sluice_memory_page*>(
      mmap(nullptr, SLUICE_PAGE_SIZE, PROT_READ, MAP_SHARED, client.page(), 0));
  ASSERT_NE(page, MAP_FAILED);
  EXPECT_TRUE(sluice_header_ok(&page->header, SLUICE_MEMORY_MAGIC));
  EXPECT_EQ(page->limit, 1000u);
  EXPECT_EQ(client.hold(300, 300), 300);
  EXPECT_EQ(page->held, 300u);
  EXPECT_EQ(page->holders, 1u);
  EXPECT_EQ(client.hold(1001, 1001), 300);
  broker->set_limit(account, 200);
  EXPECT_EQ(page->limit, 200u);
  EXPECT_EQ(client.hold(301, 301), 300);
  EXPECT_EQ(client.hold(100, 100), 100);
  EXPECT_EQ(mmap(nullptr, SLUICE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, client.page(), 0),
            MAP_FAILED);
}

TEST_F(MemoryBrokerTest, ALostConnectionKeepsWhatTheProcessHas) {
  std::optional<MemoryClient> client(path);
  EXPECT_EQ(client->join(), 0);
  EXPECT_EQ(client->hold(300, 300), 300);
  client.emplace(path);
  EXPECT_EQ(client->join(100), 300);
  client.emplace(path);
  EXPECT_EQ(client->join(400), 400);  // more than was recorded: it exists
  EXPECT_EQ(broker->look(account).holders, 1);
}

TEST_F(MemoryBrokerTest, AKilledProcessHoldsNothing) {
  Holder victim(path, 1000);
  MemoryClient other(path);
  EXPECT_EQ(other.join(), 0);
  EXPECT_EQ(other.hold(1, 1), 0);
  victim.kill();
  EXPECT_TRUE(eventually("its memory to be free", [&] { return held() == 0; }));
  EXPECT_EQ(other.hold(1000, 1000), 1000);
}

TEST_F(MemoryBrokerTest, TheNextDaemonKnowsWhatIsHeldBeforeAnybodySaysSo) {
  Holder silent(path, 600);
  {
    MemoryClient client(path);
    EXPECT_EQ(client.join(), 0);
    EXPECT_EQ(client.hold(200, 200), 200);
  }
  begin();
  MemoryClient client(path);
  EXPECT_EQ(client.join(0), 200);  // as recorded
  EXPECT_EQ(broker->look(account).holders, 2);
  // Without a daemon each of them may have taken a half of the 200 that were left.
  EXPECT_EQ(client.hold(301, 301), 200);
  EXPECT_EQ(client.hold(300, 300), 300);
  begin();
  begin();
  client = MemoryClient(path);
  EXPECT_EQ(client.join(0), 300);
  silent.kill();
  EXPECT_TRUE(eventually("its memory to be free", [&] { return held() == 300; }));
  EXPECT_EQ(client.hold(1000, 1000), 1000);
}

TEST_F(MemoryBrokerTest, OfWhatASilentProcessMayHaveTakenTheDeviceSaysHowMuchItIs) {
  Holder silent(path, 600);
  begin();
  EXPECT_EQ(held(), 1000);
  device->say({clock.now(), 600});  // it may take more before it can reconnect
  broker->hear_devices();
  EXPECT_EQ(held(), 1000);
  device->say({clock.now(), 650});
  broker->hear_devices();
  EXPECT_EQ(held(), 650);
}

// A process without a number here is identified by other means (peer.h).
TEST_F(MemoryBrokerTest, WhoCannotBeSeenKeepsWhatItHasUntilItComesAgain) {
  const ProcessIdentity unseen{.pid = 0, .start_time = 7};
  const pid_t victim = fork();
  if (victim == 0) {
    for (;;) pause();
  }
  const auto come = [&] {
    return broker->join(account, unseen, std::move(*open_process(*identity_of(victim))), 200);
  };
  EXPECT_EQ(come()->held, 200);
  begin();
  EXPECT_EQ(held(), kLimit) << "and what it may have taken alone";
  device->say({clock.now(), 0});  // of no process that it names
  broker->hear_devices();
  EXPECT_EQ(held(), kLimit);
  EXPECT_EQ(come()->held, 200);
  EXPECT_EQ(held(), 200);
  EXPECT_EQ(broker->look(account).holders, 1);
  kill(victim, SIGKILL);
  waitpid(victim, nullptr, 0);
  EXPECT_TRUE(eventually("its memory to be free", [&] { return held() == 0; }));
}

TEST_F(MemoryBrokerTest, WhoseEndCannotBeHeardOfIsRefused) {
  Fd deaf(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto joined = broker->join(account, *identity_of(getpid()), std::move(deaf), 200);
  ASSERT_FALSE(joined.ok());
  EXPECT_EQ(joined.error().kind, ErrorKind::kExhausted);
  EXPECT_EQ(broker->look(account).holders, 0);
  begin();
  EXPECT_EQ(held(), 0) << "nothing of it is written down";
}

TEST_F(MemoryBrokerTest, WhoDiedMeanwhileHoldsNothingAndAClosedSliceLeavesNothing) {
  {
    Holder victim(path, 600);
    server.reset();
    broker.reset();
  }
  begin();
  EXPECT_EQ(held(), 0);
  Holder other(path, 500);
  broker->close(account);
  begin();
  EXPECT_EQ(held(), 0);
}

TEST_F(MemoryBrokerTest, AContextIsWhatTheDeviceSaysBesideWhatIsHeld) {
  MemoryClient client(path);
  EXPECT_EQ(client.join(), 0);
  EXPECT_EQ(client.hold(300, 300), 300);
  const Time before = clock.now();
  device->say({before, 350});
  broker->hear_devices();
  device->say({before, 900});  // older than the process's last message
  broker->hear_devices();
  EXPECT_EQ(held(), 350);
  EXPECT_EQ(client.hold(951, 951), 300);
  EXPECT_EQ(client.hold(950, 950), 950);
}

TEST_F(MemoryBrokerTest, WhoComesIsTakenForTheLeastThatWasLearned) {
  MemoryClient client(path);
  EXPECT_EQ(client.join(), 0);
  device->say({clock.now(), 50});
  broker->hear_devices();
  const MemoryAccount next = *broker->open("next", kLimit, device),
                      other = *broker->open("other", kLimit, nullptr);
  const auto come = [&](MemoryAccount where) {
    EXPECT_TRUE(broker->join(where, *identity_of(getpid()), self(), 0).ok());
    return broker->look(where).held;
  };
  EXPECT_EQ(come(next), 50);
  EXPECT_EQ(come(other), 0);
  broker->close(account);
  broker->close(next);
  EXPECT_EQ(come(*broker->open("another", kLimit, device)), 50);
}

TEST_F(MemoryBrokerTest, TheFirstIsNotAnsweredBeforeItsDeviceSaysWhatAContextTakes) {
  device->say({clock.now(), 0});  // it reports processes, and nothing of this one yet
  const MemoryHolder first = broker->join(account, *identity_of(getpid()), self(), 0)->holder;
  EXPECT_FALSE(broker->may_answer(first));
  device->say({clock.now(), 300});
  EXPECT_TRUE(broker->may_answer(first));
  EXPECT_EQ(broker->hold(first, 701, 701), 0);
  EXPECT_EQ(broker->hold(first, 700, 700), 700);
  const MemoryAccount next = *broker->open("next", kLimit, device);
  const MemoryHolder second = broker->join(next, *identity_of(getpid()), self(), 0)->holder;
  EXPECT_TRUE(broker->may_answer(second)) << "it is known by now";
  EXPECT_EQ(broker->hold(second, 701, 701), 0);
}

TEST_F(MemoryBrokerTest, WhatADeviceDoesNotSayIsWaitedForOnce) {
  device->say({clock.now(), 0});
  MemoryClient client(path);
  EXPECT_EQ(client.join(), 0);
  EXPECT_EQ(client.hold(700, 700), 700);
  const MemoryAccount next = *broker->open("next", kLimit, device);
  const MemoryHolder second = broker->join(next, *identity_of(getpid()), self(), 0)->holder;
  EXPECT_TRUE(broker->may_answer(second));
}

TEST_F(MemoryBrokerTest, WhatIsOutOfTurnEndsTheConnection) {
  const auto head = [](uint32_t type) {
    return sluice_message{SLUICE_HELLO_MAGIC, SLUICE_WIRE_VERSION, type};
  };
  EXPECT_EQ(MemoryClient(path).hold(1, 1), std::nullopt);
  for (const uint32_t type : {SLUICE_HELLO, SLUICE_MEMORY_HELLO}) {
    MemoryClient client(path);
    EXPECT_EQ(client.join(), 0);
    sluice_memory_hello again{.head = head(type)};
    client.send(again);
    EXPECT_EQ(client.receive<sluice_held>(), std::nullopt);
  }
  MemoryClient uncounted(path);
  uncounted.send(sluice_memory_hello{.head = head(SLUICE_MEMORY_HELLO), .device = 1});
  const auto refused = uncounted.receive<sluice_refused>();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->reason, static_cast<uint32_t>(SLUICE_REFUSED_UNKNOWN));
}

TEST_F(MemoryBrokerTest, WhoOnlyLooksSeesTheSliceAndHoldsNothing) {
  EXPECT_EQ(MemoryClient(path).look()->processes, 0u);
  EXPECT_EQ(broker->look(account).holders, 0);
  MemoryClient client(path);
  EXPECT_EQ(client.join(), 0);
  EXPECT_EQ(client.hold(300, 300), 300);
  broker->set_limit(account, 200);
  const auto seen = MemoryClient(path).look();
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->limit, 200u);
  EXPECT_EQ(seen->held, 300u);
  ASSERT_EQ(seen->processes, 1u);
  EXPECT_EQ(seen->pids[0], static_cast<uint32_t>(getpid()));
  EXPECT_EQ(MemoryClient(path).look(1), std::nullopt) << "not counted";
  EXPECT_EQ(client.look(), std::nullopt) << "out of order";
}

TEST_F(MemoryBrokerTest, HugeNumbersAreCut) {
  MemoryClient client(path);
  EXPECT_EQ(client.join(-1), kMostMemory);  // as an unsigned number
  EXPECT_EQ(client.hold(~0ull, ~0ull), kMostMemory);
  EXPECT_EQ(client.hold(0, 0), 0);
  EXPECT_EQ(client.hold(~0ull, ~0ull), 0);
  EXPECT_EQ(held(), 0);
}

TEST_F(MemoryBrokerTest, AClosedAccountEndsItsConnections) {
  MemoryClient client(path);
  EXPECT_EQ(client.join(), 0);
  broker->close(account);
  EXPECT_EQ(client.hold(1, 1), std::nullopt);
  EXPECT_EQ(MemoryClient(path).join(), std::nullopt);
}

}  // namespace
}  // namespace sluice::node
