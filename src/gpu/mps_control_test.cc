// A GPU's MPS control daemon, looked after; a stand-in for NVIDIA's
// (tests/programs/mps_control.cc).
#include "gpu/mps_control.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <boost/asio/co_spawn.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/folder.h"

namespace sluice::node {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr MpsPatience kShort{.answer = Seconds(20),
                             .end = Seconds(60),
                             .look_every = Millis(20),
                             .shortest_pause = Millis(5),
                             .longest_pause = Millis(50)};

class MpsControlTest : public testing::Test {
 protected:
  ~MpsControlTest() override {
    control_.reset();
    for (const pid_t pid : family_of(getpid()))
      if (pid != getpid()) kill(pid, SIGKILL);
    while (wait(nullptr) > 0) continue;
  }

  MpsPlace place() const {
    return {.program = SLUICE_MPS_CONTROL,
            .gpu = "GPU-a",
            .pipes = folder_.path + "/pipes",
            .logs = folder_.path + "/logs",
            .output = folder_.path + "/output"};
  }
  std::string pipe_file(const char* name) const { return place().pipes + "/" + name; }
  static std::string contents(const std::string& path) {
    std::ifstream in(path);
    return (std::ostringstream() << in.rdbuf()).str();
  }
  // How the stand-in behaves from its next command on.
  void let(const char* file, const std::string& content = "") const {
    std::filesystem::create_directories(place().pipes);
    std::ofstream(pipe_file(file)) << content;
  }
  void let_no_more(const char* file) const { std::filesystem::remove(pipe_file(file)); }

  // As a node daemon that starts, after the one before it, if any, was killed.
  void look_after(const MpsPatience& patience = kShort) {
    control_.reset();
    io_.emplace(1);
    control_ = std::make_unique<MpsControl>(
        *io_, clock_, place(), geteuid(), [] {}, patience);
    control_->start();
  }
  pid_t control_pid() const {
    pid_t pid = 0;
    std::ifstream(pipe_file("nvidia-cuda-mps-control.pid")) >> pid;
    return pid;
  }
  // 0: there is none.
  pid_t server_pid() const {
    for (const pid_t pid : family_of(control_pid()))
      if (pid != control_pid()) return pid;
    return 0;
  }
  // Runs the loop until it holds.
  template <class Condition>
  testing::AssertionResult until(Condition holds) {
    while (!holds())
      if (io_->run_one_for(std::chrono::minutes(1)) == 0)
        return testing::AssertionFailure() << "waited in vain; " << control_->describe();
    return testing::AssertionSuccess();
  }
  testing::AssertionResult until_ready() {
    return until([&] { return control_->ready(); });
  }
  testing::AssertionResult until_it_says(const std::string& text) {
    return until([&] { return control_->describe().find(text) != std::string::npos; });
  }
  Result<void> terminate(ProcessIdentity client) {
    std::optional<Result<void>> outcome;
    asio::co_spawn(*io_, control_->terminate(client),
                   [&](const std::exception_ptr&, Result<void> r) { outcome = std::move(r); });
    EXPECT_TRUE(until([&] { return outcome.has_value(); }));
    return *outcome;
  }
  void quit() {
    bool done = false;
    asio::co_spawn(*io_, control_->quit(), [&](const std::exception_ptr&) { done = true; });
    EXPECT_TRUE(until([&] { return done; }));
  }

  SteadyClock clock_;
  TemporaryFolder folder_;
  std::optional<asio::io_context> io_;  // ends after what runs in it
  std::unique_ptr<MpsControl> control_;
};

TEST_F(MpsControlTest, StartsOneForItsGpuAlone) {
  look_after();
  EXPECT_FALSE(control_->ready());
  ASSERT_TRUE(until_ready());
  EXPECT_EQ(control_->describe(), "control daemon " + std::to_string(control_pid()));
  EXPECT_EQ(contents(place().output), "serves GPU-a\n");
  EXPECT_EQ(getsid(control_pid()), control_pid());
}

TEST_F(MpsControlTest, StartsAnotherWhenItIsKilled) {
  look_after();
  ASSERT_TRUE(until_ready());
  const pid_t first = control_pid();
  kill(first, SIGKILL);
  ASSERT_TRUE(until([&] { return !control_->ready(); }));
  EXPECT_THAT(control_->describe(),
              HasSubstr("control daemon " + std::to_string(first) + " ended: signal 9 (Killed)"));
  ASSERT_TRUE(until_ready());
  EXPECT_NE(control_pid(), first);
}

TEST_F(MpsControlTest, OneThatOutlivedTheNodeDaemonIsAdopted) {
  look_after();
  ASSERT_TRUE(until_ready());
  const pid_t first = control_pid();
  look_after();
  ASSERT_TRUE(until_ready());
  EXPECT_EQ(control_->describe(), "control daemon " + std::to_string(first));
  kill(first, SIGKILL);
  ASSERT_TRUE(until_it_says("ended"));
  ASSERT_TRUE(until_ready());
  EXPECT_NE(control_pid(), first);
}

TEST_F(MpsControlTest, OneThatDoesNotAnswerTheNextNodeDaemonIsReplaced) {
  look_after();
  ASSERT_TRUE(until_ready());
  const pid_t first = control_pid();
  let("mute");
  MpsPatience impatient = kShort;
  impatient.answer = Millis(300);
  look_after(impatient);
  ASSERT_TRUE(until_it_says("MPS does not answer within 300 ms"));
  EXPECT_THAT(control_->describe(), Not(HasSubstr(std::to_string(first) + ":")));
  EXPECT_FALSE(identity_of(first).has_value());
}

TEST_F(MpsControlTest, AProcessThatOnlyHasItsPidIsNotTakenForIt) {
  let("nvidia-cuda-mps-control.pid", std::to_string(getpid()));
  look_after();
  ASSERT_TRUE(until_ready());
  EXPECT_NE(control_pid(), getpid());
}

TEST_F(MpsControlTest, WhileItsServerHasAFaultNobodyIsSentThere) {
  look_after();
  ASSERT_TRUE(until_ready());
  let("state", "FAULT");
  ASSERT_TRUE(until_it_says("has had a fault"));
  EXPECT_FALSE(control_->ready());
  let_no_more("state");
  EXPECT_TRUE(until_ready());
}

TEST_F(MpsControlTest, ServersThatDoNotStartAreTriedAgain) {
  let("refuse");
  look_after();
  ASSERT_TRUE(until_it_says("no server starts: MPS says 'the server exited with status 1'"));
  EXPECT_FALSE(control_->ready());
  let_no_more("refuse");
  EXPECT_TRUE(until_ready());
}

TEST_F(MpsControlTest, AProgramThatEndsAtOnceIsTriedAgain) {
  MpsPlace wrong = place();
  wrong.program = "/bin/false";
  io_.emplace(1);
  control_ = std::make_unique<MpsControl>(
      *io_, clock_, wrong, geteuid(), [] {}, kShort);
  control_->start();
  EXPECT_TRUE(until_it_says("ended: exit code 1; tried again in 10 ms"));
}

TEST_F(MpsControlTest, OnlyTheClientThatIsMeantIsTerminated) {
  look_after();
  ASSERT_TRUE(until_ready());
  const pid_t meant = fork();
  if (meant == 0)
    for (;;) pause();
  const ProcessIdentity client = *identity_of(meant);
  let("clients", std::to_string(meant) + "\n77\n");
  EXPECT_TRUE(terminate({client.pid, client.start_time + 1}).ok()) << "its pid, but another's";
  EXPECT_TRUE(terminate(*identity_of(getpid())).ok()) << "no client";
  EXPECT_FALSE(std::filesystem::exists(pipe_file("terminated")));

  EXPECT_TRUE(terminate(client).ok());
  EXPECT_EQ(contents(pipe_file("terminated")), std::to_string(meant) + "\n");
  EXPECT_EQ(contents(pipe_file("clients")), "77\n");
  EXPECT_EQ(identity_of(meant), client) << "the process goes on";
  kill(meant, SIGKILL);
  waitpid(meant, nullptr, 0);
}

TEST_F(MpsControlTest, AClientThatMpsDoesNotEndIsAnError) {
  look_after();
  ASSERT_TRUE(until_ready());
  let("clients", std::to_string(getpid()));
  let("stay");
  EXPECT_EQ(terminate(*identity_of(getpid())).error().message,
            "MPS says 'Invalid process " + std::to_string(getpid()) + "! 1'");
}

TEST_F(MpsControlTest, ItsServerIsOfTheUserWhoseClientsItIsToHave) {
  if (geteuid() != 0) GTEST_SKIP() << "not root";
  constexpr uid_t kOther = 54321;
  std::filesystem::permissions(folder_.path, std::filesystem::perms(0755));
  look_after();
  ASSERT_TRUE(until_ready());
  const pid_t first = server_pid();
  EXPECT_EQ(uid_of(first), geteuid());
  control_->serve(kOther);
  ASSERT_TRUE(until([&] { return server_pid() != first && uid_of(server_pid()) == kOther; }));
  EXPECT_FALSE(identity_of(first));
  EXPECT_TRUE(until_ready());
}

TEST_F(MpsControlTest, AnotherUsersServerWaitsForTheClientsOfThisOne) {
  if (geteuid() != 0) GTEST_SKIP() << "not root";
  constexpr uid_t kOther = 54321;
  look_after();
  ASSERT_TRUE(until_ready());
  let("clients", "1\n");
  control_->serve(kOther);
  ASSERT_TRUE(until_it_says("has clients of another user than 54321"));
  EXPECT_FALSE(control_->ready());
  let("clients");
  ASSERT_TRUE(until_ready());
  EXPECT_EQ(uid_of(server_pid()), kOther);
}

TEST_F(MpsControlTest, AnAdoptedServerKeepsItsUser) {
  if (geteuid() != 0) GTEST_SKIP() << "not root";
  constexpr uid_t kOther = 54321;
  look_after();
  ASSERT_TRUE(until_ready());
  control_->serve(kOther);
  ASSERT_TRUE(until([&] { return uid_of(server_pid()) == kOther; }));
  const pid_t kept = server_pid();
  look_after();
  ASSERT_TRUE(until_ready());
  EXPECT_EQ(control_->user(), kOther);
  EXPECT_EQ(server_pid(), kept);
}

TEST_F(MpsControlTest, QuitsWithoutClients) {
  look_after();
  ASSERT_TRUE(until_ready());
  const pid_t pid = control_pid();
  quit();
  EXPECT_FALSE(identity_of(pid).has_value());
  EXPECT_EQ(contents(place().output), "serves GPU-a\n") << "no other was started";
}

TEST_F(MpsControlTest, StaysForItsClients) {
  look_after();
  ASSERT_TRUE(until_ready());
  let("clients", "77\n");
  quit();
  EXPECT_TRUE(identity_of(control_pid()).has_value());
}

TEST(MpsProgram, IsFoundAsTheShellFindsPrograms) {
  EXPECT_THAT(*find_mps_program("sh"), testing::EndsWith("/sh"));
  EXPECT_EQ(*find_mps_program("/bin/sh"), "/bin/sh");
  EXPECT_EQ(find_mps_program("no-such-program").error().message,
            "no-such-program: there is no such program");
}

TEST(MpsProgram, PipesWithTooLongAPathAreRefused) {
  const TemporaryFolder folder;
  const std::string fits = folder.path + "/" + std::string(88 - folder.path.size() - 1, 'x');
  EXPECT_TRUE(prepare({.pipes = fits, .logs = folder.path}).ok());
  EXPECT_THAT(prepare({.pipes = fits + "x", .logs = folder.path}).error().message,
              HasSubstr("is longer than 88 bytes"));
}

}  // namespace
}  // namespace sluice::node
