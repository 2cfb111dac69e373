// A slice's own socket beside permit.sock: a process that connects there belongs to the slice,
// whether it can be seen from here or not.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>

#include <filesystem>

#include "enforce/permit_server.h"
#include "tests/support/child.h"
#include "tests/support/permit_caller.h"

namespace sluice::node {
namespace {

constexpr Bytes kLimit = 1000;
const std::string kUnknown = "refused " + std::to_string(SLUICE_REFUSED_UNKNOWN);
const std::string kUnseen = "refused " + std::to_string(SLUICE_REFUSED_IDENTITY);

// A server that knows a slice only by its socket.
struct Served {
  explicit Served(const std::string& folder)
      : all(folder + "/all"),
        own(folder + "/own"),
        broker(clock, 1, *MemoryRecord::open(folder + "/record")) {
    account = *broker.open("a", kLimit, nullptr);
    server = std::move(*PermitServer::start(
        {.path = all, .generation = 1}, clock,
        [this](const Peer& peer, uint32_t) -> Result<Placement> {
          if (peer.slice != "a") return Error{ErrorKind::kNotFound, "no slice"};
          return Placement{.memory = account};
        },
        &broker));
    EXPECT_TRUE(server->open_for("a", own).ok());
  }

  const std::string all, own;
  SteadyClock clock;
  MemoryBroker broker;
  MemoryAccount account = 0;
  std::unique_ptr<PermitServer> server;
};

class SliceSocketTest : public testing::Test {
 protected:
  SliceSocketTest() { folder_ = mkdtemp(folder_.data()); }
  ~SliceSocketTest() override { std::filesystem::remove_all(folder_); }
  std::string folder_ = testing::TempDir() + "/own-XXXXXX";
};

TEST_F(SliceSocketTest, WhoComesThereBelongsToIt) {
  const Served served(folder_);
  EXPECT_EQ(answer_at(served.own, SLUICE_MEMORY_HELLO), "welcome");
  EXPECT_EQ(served.broker.look(served.account).holders, 1);
  EXPECT_EQ(answer_at(served.all, SLUICE_MEMORY_HELLO), kUnknown);
}

TEST_F(SliceSocketTest, OnceClosedNobodyHears) {
  const Served served(folder_);
  const PermitCaller before(served.own, SLUICE_MEMORY_HELLO);
  EXPECT_EQ(before.answer(), "welcome");
  served.server->close_for("a");
  EXPECT_EQ(answer_at(served.own, SLUICE_MEMORY_HELLO), "nobody");
  EXPECT_NE(access(served.own.c_str(), F_OK), 0);
  EXPECT_TRUE(served.server->open_for("a", served.own).ok());
  EXPECT_EQ(answer_at(served.own, SLUICE_MEMORY_HELLO), "welcome");
}

// The server is in a pid namespace of its own, this process outside of it: our pid is none there.
TEST_F(SliceSocketTest, WhoCannotBeSeenIsKnownByItAlone) {
  int ready[2], ended[2];
  ASSERT_EQ(pipe(ready) + pipe(ended), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ready[0]);
    close(ended[1]);
    char state = unshare(CLONE_NEWPID) == 0 ? 'r' : 'n';
    const pid_t inner = state == 'r' ? fork() : -1;
    if (inner == 0) {
      const Served served(folder_);
      (void)!write(ready[1], &state, 1);
      (void)!read(ended[0], &state, 1);  // until the test closes it, or dies
      _exit(0);
    }
    if (inner < 0) (void)!write(ready[1], &(state = 'n'), 1);
    waitpid(inner, nullptr, 0);
    _exit(0);
  }
  close(ready[1]);
  close(ended[0]);
  char state = 0;
  EXPECT_EQ(read(ready[0], &state, 1), 1);
  if (state == 'r') {
    const std::string own = folder_ + "/own";
    const PermitCaller caller(own, SLUICE_MEMORY_HELLO);
    if (caller.answer() != kUnseen) {  // a kernel that distinguishes such processes
      EXPECT_EQ(caller.answer(), "welcome");
      EXPECT_EQ(answer_at(own, SLUICE_MEMORY_HELLO), "welcome");
      EXPECT_EQ(in_child([&](int out) {
                  const std::string said = answer_at(own, SLUICE_MEMORY_HELLO);
                  const PermitCaller look(own, SLUICE_MEMORY_LOOK);
                  const std::string all = said + " " + std::to_string(look.seen().processes);
                  if (write(out, all.data(), all.size()) < 0) _exit(1);
                }).said,
                "welcome 2")
          << "a process that came twice is one";
    }
    EXPECT_EQ(answer_at(folder_ + "/all", SLUICE_MEMORY_HELLO), kUnseen);
  }
  close(ended[1]);
  close(ready[0]);
  waitpid(child, nullptr, 0);
  if (state != 'r') GTEST_SKIP() << "no pid namespaces without root";
}

}  // namespace
}  // namespace sluice::node
