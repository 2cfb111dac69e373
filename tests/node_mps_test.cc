// A node whose emulated GPU is shared by MPS: programs' SMs, and the effect of the death of the
// control daemon or the node daemon. The control daemon is a stand-in
// (tests/programs/mps_control.cc); the emulated device confines its clients as set at their start.
// One-sided: noise makes a program use less, never more.
#include <gmock/gmock.h>

#include "node/uid_claim.h"
#include "process/process_identity.h"
#include "tests/support/eventually.h"
#include "tests/support/node_with_gpus.h"
#include "tests/support/program.h"

namespace sluice {
namespace {

using emulator::Machine;
using testing::HasSubstr;
using testing::MatchesRegex;

constexpr char kGpu[] = "devices=1 sms=132 memory_mib=1024 shared=1";

json part(int sm, int request, Bytes memory = 0) {
  json slice = Node::slice(request, 0, memory);
  slice["sm"] = sm;
  return slice;
}

class Mps : public NodeWithGpus {
 protected:
  explicit Mps(const std::vector<std::string>& flags = {"--mps", SLUICE_MPS_CONTROL})
      : NodeWithGpus(kGpu, flags) {}

  // Waits until the node reports that of its GPU.
  testing::AssertionResult mps_is(const testing::Matcher<std::string>& wanted) {
    uint64_t seen = 0;
    json last;
    for (int change = 0; change < 1000; ++change) {
      const json now = node_->get("/v1/state?wait_ms=60000&after=" + std::to_string(seen));
      if (now["status"] != 200 || now["version"] == seen) break;
      seen = now["version"];
      for (const json& d : now["devices"])
        if (d["id"] == "cuda0") last = d["mps_status"];
      if (last.is_string() && wanted.Matches(last.get<std::string>()))
        return testing::AssertionSuccess();
    }
    return testing::AssertionFailure() << "it is '" << last << "'\n" << node_->log();
  }
  testing::AssertionResult ready() { return mps_is(MatchesRegex("control daemon [0-9]+")); }

  std::string pipe_file(const char* name) { return node_->data + "/run/mps/cuda0/" + name; }
  pid_t control_pid() {
    pid_t pid = 0;
    std::ifstream(pipe_file("nvidia-cuda-mps-control.pid")) >> pid;
    return pid;
  }
  // Sets the server's answer about its clients.
  void let_clients_be(const std::vector<pid_t>& pids) {
    std::ofstream file(pipe_file("clients"));
    for (const pid_t pid : pids) file << pid << "\n";
  }

  emulator::Usage usage(pid_t program) {
    const Machine::Lock state(*machine_);
    for (const emulator::Process& p : state->processes)
      if (p.used && p.pid == program && p.client[0] != emulator::DeviceModel::kNone)
        return state->devices[0].usage(p.client[0]);
    return {};
  }
  emulator::Usage usage_over(pid_t program, Nanos span) {
    const emulator::Usage before = usage(program);
    let_programs_work(span);
    const emulator::Usage now = usage(program);
    return {now.busy_ns - before.busy_ns, now.sm_ns - before.sm_ns};
  }
  pid_t start_greedy(const char* id, const json& slice) {
    const pid_t program = start_program("cuda0", {SLUICE_CUDA_GREEDY, "kernel"}, slice, id);
    EXPECT_TRUE(
        eventually("32 ms of work", [&] { return Nanos(usage(program).busy_ns) >= Millis(32); }));
    return program;
  }
  json end_program(const std::string& id) {
    return node_->call(verb::delete_, "/v1/processes/" + id,
                       {{"program", true}, {"drain_ms", 60'000}});
  }
};

TEST_F(Mps, AGpuHoldsPartsOfItsSms) {
  ASSERT_TRUE(ready());
  EXPECT_EQ(device("cuda0")["sm_quantum"], 10);
  const json taken = take(getpid(), "cuda0", part(250, 1000, Bytes{64} << 20));
  ASSERT_EQ(taken["status"], 200) << taken;
  const json& environment = taken["environment"];
  EXPECT_EQ(environment["CUDA_MPS_PIPE_DIRECTORY"],
            pipe_file("").substr(0, pipe_file("").size() - 1));
  EXPECT_EQ(environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"], "25");
  EXPECT_EQ(environment["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"], "0=64M");
}

TEST_F(Mps, AProgramWithHalfTheSmsRunsOnHalfTheSms) {
  ASSERT_TRUE(ready());
  const emulator::Usage used = usage(start_greedy("a", part(500, 1000)));
  EXPECT_LE(used.sm_ns, used.busy_ns * 66);
}

TEST_F(Mps, TwoHalvesRunAtOnceEachHeldToItsTime) {
  ASSERT_TRUE(ready());
  const pid_t whole_time = start_greedy("a", part(500, 1000));
  const pid_t fifth = start_greedy("b", part(500, 200));
  const SteadyClock clock;
  const Time begin = clock.now();
  const emulator::Usage other = usage(whole_time);
  const emulator::Usage used = usage_over(fifth, Seconds(2));
  const double took = seconds(clock.now() - begin);
  // 20 %, and a kernel of two milliseconds (132 blocks on 66 SMs) in each window of 20.
  EXPECT_LE(seconds(Nanos(used.busy_ns)) / took, 0.3);
  EXPECT_LE(used.sm_ns, used.busy_ns * 66);
  EXPECT_GT(used.busy_ns, 0);
  EXPECT_GT(usage(whole_time).busy_ns, other.busy_ns) << "neither waits for the other";
  std::printf("share %.3f\n", seconds(Nanos(used.busy_ns)) / took);
}

TEST_F(Mps, AControlDaemonThatIsKilledIsStartedAgainAndProgramsGoOn) {
  ASSERT_TRUE(ready());
  const pid_t program = start_greedy("a", part(500, 1000));
  const pid_t first = control_pid();
  std::ofstream{pipe_file("refuse")};
  kill(first, SIGKILL);
  ASSERT_TRUE(mps_is(HasSubstr("no server starts")));
  EXPECT_THAT(node_->log(), HasSubstr("ended: signal 9 (Killed)"));
  const json refused = take(getpid(), "cuda0", part(500, 1000));
  EXPECT_EQ(refused["status"], 503) << refused;
  EXPECT_THAT(refused["error"].get<std::string>(), HasSubstr("no server starts"));
  std::filesystem::remove(pipe_file("refuse"));
  ASSERT_TRUE(ready());
  EXPECT_NE(control_pid(), first);
  const emulator::Usage before = usage(program);
  EXPECT_TRUE(eventually("it to go on", [&] { return usage(program).busy_ns > before.busy_ns; }));
  EXPECT_EQ(take(getpid(), "cuda0", part(500, 1000))["status"], 200);
}

TEST_F(Mps, ItOutlivesTheNodeDaemonAndIsAdopted) {
  ASSERT_TRUE(ready());
  const pid_t control = control_pid();
  const pid_t program = start_greedy("a", part(500, 1000));
  node_->restart();
  ASSERT_TRUE(ready());
  EXPECT_EQ(control_pid(), control);
  const emulator::Usage before = usage(program);
  EXPECT_TRUE(eventually("it to go on", [&] { return usage(program).busy_ns > before.busy_ns; }));
}

TEST_F(Mps, ItQuitsWithTheNodeDaemonUnlessItHasClients) {
  ASSERT_TRUE(ready());
  const Fd first = pidfd_of(control_pid());
  let_clients_be({1});
  node_->stop(SIGTERM);
  EXPECT_FALSE(ends_within(first, Nanos(0)));
  node_->launch();
  ASSERT_TRUE(ready());
  let_clients_be({});
  node_->stop(SIGTERM);
  EXPECT_TRUE(ends_within(first, Seconds(60)));
}

TEST_F(Mps, AProgramThatIsEndedIsTakenOffTheGpuBeforeItIsSignalled) {
  ASSERT_TRUE(ready());
  const pid_t ended = start_greedy("a", part(500, 1000));
  const pid_t other = start_greedy("b", part(500, 1000));
  let_clients_be({ended, other});
  EXPECT_EQ(end_program("a")["status"], 202);
  ASSERT_TRUE(ends_within(pidfd_of(ended), Seconds(60)));
  int status = 0;
  waitpid(ended, &status, 0);
  programs_.erase(programs_.begin());
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  pid_t terminated = 0, next = 0;
  std::ifstream(pipe_file("terminated")) >> terminated >> next;
  EXPECT_EQ(terminated, ended);
  EXPECT_EQ(next, 0) << "nobody else";
  const emulator::Usage before = usage(other);
  EXPECT_TRUE(eventually("it to go on", [&] { return usage(other).busy_ns > before.busy_ns; }));
  let_clients_be({});
}

// As root: a server's clients are functions' programs, or those of `sluice run`'s user.
class MpsOfTwoUsers : public Mps {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "not root";
    ASSERT_TRUE(ready());
  }
  json start(const std::string& id, const json& slice) {
    return node_->call(verb::post, "/v1/instances",
                       {{"id", id},
                        {"function", "default/" + id},
                        {"device", "cuda0"},
                        {"slice", slice},
                        {"program", program_of_node(*node_, true)}});
  }
  void stop(const std::string& id) {
    EXPECT_EQ(node_->call(verb::delete_, "/v1/instances/" + id, {{"drain_ms", 60'000}})["status"],
              202);
    node_->wait(id, "gone");
  }
  // Waits until the server is that user's.
  testing::AssertionResult server_is_of(uid_t user) {
    return eventually("a server of user " + std::to_string(user), [&] {
      const std::vector<pid_t> family = node::family_of(control_pid());
      return family.size() == 2 && node::uid_of(family.back()) == user;
    });
  }
};

TEST_F(MpsOfTwoUsers, FunctionsShareAUidThatIsNotRootsAndAreClients) {
  for (const char* id : {"a", "b"}) EXPECT_EQ(start(id, part(500, 200))["status"], 202);
  const json a = node_->wait("a", "ready"), b = node_->wait("b", "ready");
  const auto user = node::uid_of(a["pid"]);
  ASSERT_TRUE(user);
  EXPECT_EQ(*user % node::kUidsPerBlock, node::kUidsPerBlock - 1);
  EXPECT_EQ(node::uid_of(b["pid"]), user);
  EXPECT_TRUE(server_is_of(*user));
  for (const json& i : {a, b}) {
    std::ifstream file("/proc/" + std::to_string(i["pid"].get<pid_t>()) + "/environ");
    const std::string variables = (std::ostringstream() << file.rdbuf()).str();
    EXPECT_THAT(variables, HasSubstr("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50"));
  }
}

TEST_F(MpsOfTwoUsers, TheFirstClientsUserHasTheServerUntilItsLastClientHasEnded) {
  EXPECT_EQ(start("a", part(500, 200))["status"], 202);
  const json a = node_->wait("a", "ready");
  const uid_t user = *node::uid_of(a["pid"]);
  const json refused = take(getpid(), "cuda0", part(250, 200));
  EXPECT_EQ(refused["status"], 429) << refused;
  EXPECT_THAT(refused["error"].get<std::string>(),
              HasSubstr("now of user " + std::to_string(user) + ", as 'a'"));
  const json whole = take(getpid(), "cuda0", part(1000, 200), "whole");
  EXPECT_EQ(whole["status"], 200) << whole;
  EXPECT_FALSE(whole["environment"].contains("CUDA_MPS_PIPE_DIRECTORY")) << "it takes turns";
  EXPECT_EQ(node_->call(verb::delete_, "/v1/processes/whole")["status"], 202);
  stop("a");

  const json taken = take(getpid(), "cuda0", part(250, 200));
  EXPECT_EQ(taken["status"], 200) << taken;
  EXPECT_TRUE(server_is_of(geteuid()));
  EXPECT_THAT(device("cuda0")["undivided"].get<std::string>(), HasSubstr("as 'program'"));
  const json late = start("b", part(250, 200));
  EXPECT_EQ(late["status"], 429) << late;
  EXPECT_THAT(late["error"].get<std::string>(), HasSubstr("now of user 0, as 'program'"));
  node_->restart();
  ASSERT_TRUE(ready());
  EXPECT_EQ(start("c", part(250, 200))["status"], 429) << "nor from the next node daemon";
  EXPECT_EQ(node_->call(verb::delete_, "/v1/processes/program")["status"], 202);
  EXPECT_EQ(start("d", part(250, 200))["status"], 202);
  EXPECT_TRUE(server_is_of(user));
  node_->wait("d", "ready");
}

TEST_F(MpsOfTwoUsers, AServerThatOutlivesTheNodeDaemonHasTheUidOfTheNextOnesFunctions) {
  const pid_t server = node::family_of(control_pid()).back();
  const auto user = node::uid_of(server);
  node_->restart();
  ASSERT_TRUE(ready());
  EXPECT_EQ(start("a", part(500, 200))["status"], 202);
  EXPECT_EQ(node::uid_of(node_->wait("a", "ready")["pid"]), user) << node_->log();
  EXPECT_EQ(node::family_of(control_pid()).back(), server);
}

class MpsThatDoesNotStart : public Mps {
 protected:
  MpsThatDoesNotStart() : Mps({"--mps", "/bin/false"}) {}
};

TEST_F(MpsThatDoesNotStart, LeavesTimeSharing) {
  ASSERT_TRUE(mps_is(HasSubstr("ended: exit code 1")));
  const json refused = take(getpid(), "cuda0", part(500, 1000));
  EXPECT_EQ(refused["status"], 503) << refused;
  EXPECT_THAT(refused["error"].get<std::string>(),
              HasSubstr("slice.sm: cuda0 has parts of its SMs for clients of MPS alone"));
  const json taken = take(getpid(), "cuda0");
  EXPECT_EQ(taken["status"], 200) << taken;
  EXPECT_FALSE(taken["environment"].contains("CUDA_MPS_PIPE_DIRECTORY"));
}

class MpsThatIsNotThere : public Mps {
 protected:
  MpsThatIsNotThere() : Mps({"--mps", "no-such-program"}) {}
};

TEST_F(MpsThatIsNotThere, LeavesTimeSharing) {
  EXPECT_TRUE(mps_is("off: no-such-program: there is no such program"));
  EXPECT_EQ(device("cuda0")["sm_quantum"], 1000);
  EXPECT_EQ(take(getpid(), "cuda0", part(500, 1000))["status"], 400);
  EXPECT_EQ(take(getpid(), "cuda0")["status"], 200);
}

}  // namespace
}  // namespace sluice
