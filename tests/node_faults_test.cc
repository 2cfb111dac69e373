// When something dies, stops, fills up or is taken, only the thing itself is lost
// (docs/design/processes.md).
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdio>

#include "process/process_identity.h"
#include "tests/support/folder.h"
#include "tests/support/node.h"
#include "tests/support/small_disk.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A child that rests until its end.
class ChildProcess {
 public:
  ChildProcess() : pid_(fork()) {
    while (pid_ == 0) pause();
  }
  ~ChildProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  ChildProcess(const ChildProcess&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

Fd pidfd_in(const json& instance) {
  return pidfd_of(instance["pid"].get<pid_t>());
}

// The daemon run to its end, for starts that must fail: its exit code and its output.
struct Ended {
  int code = 0;
  std::string said;
};
Ended run_daemon(const std::string& flags) {
  FILE* out = popen((program("node_main") + " node " + flags + " 2>&1").c_str(), "r");
  Ended e;
  char part[4096];
  while (const size_t n = fread(part, 1, sizeof part, out)) e.said.append(part, n);
  e.code = WEXITSTATUS(pclose(out));
  return e;
}
std::string flags_for(const std::string& data) {
  return "--data " + data + " --runtime " + program("fake_runtime");
}

// Returns the last number behind `word` in the daemon's log.
pid_t logged_pid(const Node& node, const std::string& word) {
  const std::string log = node.log();
  const size_t at = log.rfind(word + " ");
  return at == log.npos ? 0 : std::atoi(log.c_str() + at + word.size() + 1);
}

TEST(NodeFaults, AKilledDaemonLosesNothingAndGivesNothingAway) {
  Node node;
  const json busy = node.ready("busy", 400, "busy");
  const json calm = node.ready("calm", 400);
  node.stop(SIGKILL);
  EXPECT_EQ(node.ask("calm", "/burn?ms=5")["pid"], calm["pid"]);  // at its request, alone
  EXPECT_FALSE(ends_within(pidfd_in(busy), Nanos(0)));

  node.launch();
  EXPECT_EQ(node.start("more", 400)["status"], 429);  // 800 of 1000 are reserved
  EXPECT_EQ(node.start("less", 200)["status"], 202);
  EXPECT_EQ(node.wait("busy", "ready")["pid"], busy["pid"]);
  EXPECT_EQ(node.wait("calm", "ready")["uid"], calm["uid"]);
  // Gates find the new daemon by themselves; every poll is a request with work of its own.
  json self = json::object();
  for (int i = 0; i < 2000 && self.value("gate", 0) != 1; ++i)
    self = node.ask("calm", "/burn?ms=1");
  EXPECT_EQ(self["gate"], 1) << self;
  EXPECT_EQ(node.resize("busy", 300)["status"], 200);
  EXPECT_EQ(node.remove("busy")["status"], 202);  // adopted instances drain by SIGTERM
  node.wait("busy", "gone");
}

TEST(NodeFaults, WhoDiesWhileNoDaemonRunsIsFoundOut) {
  Node node;
  const json a = node.ready("a", 900);
  node.stop(SIGKILL);
  const Fd pidfd = pidfd_in(a);
  kill(a["pid"].get<pid_t>(), SIGKILL);
  ASSERT_TRUE(ends_within(pidfd, Seconds(30)));
  node.launch();
  EXPECT_EQ(node.wait("a", "gone")["error"], "died while no node daemon ran");
  node.ready("b", 900);
}

TEST(NodeFaults, OneThatWasStartingWhenTheDaemonDiedIsGivenUp) {
  Node node;
  json a = node.start("a", 900, "deaf");
  for (uint64_t seen = 0; a.value("pid", 0) == 0; a = node.get("/v1/instances/a"))
    seen = node.get("/v1/state?wait_ms=5000&after=" + std::to_string(seen))["version"];
  const Fd pidfd = pidfd_in(a);
  node.restart();
  const json gone = node.wait("a", "gone");
  EXPECT_EQ(gone["error"], "the node daemon was restarted while it started");
  EXPECT_EQ(gone["node_fault"], true);
  EXPECT_TRUE(ends_within(pidfd, Seconds(30)));
  node.ready("b", 900);
}

TEST(NodeFaults, AfterARestartOfTheMachineNobodyIsAdopted) {
  Node node;
  const json a = node.ready("a", 900);
  node.stop(SIGKILL);
  const Fd pidfd = pidfd_in(a);
  kill(a["pid"].get<pid_t>(), SIGKILL);
  ASSERT_TRUE(ends_within(pidfd, Seconds(30)));
  const ChildProcess stranger;  // it has the recorded pid now
  json state = json::parse(std::ifstream(node.state_file()));
  state["boot_id"] = "another";
  state["instances"][0]["pid"] = stranger.pid();
  std::ofstream(node.state_file()) << state;
  node.launch();
  EXPECT_EQ(node.wait("a", "gone")["error"], "the machine was restarted");
  EXPECT_FALSE(ends_within(pidfd_of(stranger.pid()), Nanos(0)));
}

// A daemon that cannot know what runs starts nothing, ends nothing, and reports what runs.
class NodeJson : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(NodeJson, ThatDoesNotSayWhatRunsStopsTheStart) {
  Node node;
  const json a = node.ready("a", 900);
  node.stop(SIGKILL);
  const std::string path = node.state_file();
  const std::string whole = (std::ostringstream() << std::ifstream(path).rdbuf()).str();
  std::filesystem::remove(path);
  const auto& [text, fault] = GetParam();
  if (*text != 0) std::ofstream(path) << text;

  const Ended refused = run_daemon(flags_for(node.data));
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.said, HasSubstr(path + ": " + fault));
  EXPECT_THAT(refused.said, HasSubstr("a (process " + a["pid"].dump() + ")"));
  EXPECT_FALSE(ends_within(pidfd_in(a), Nanos(0)));

  std::ofstream(path, std::ios::trunc) << whole;
  node.launch();
  EXPECT_EQ(node.wait("a", "ready")["pid"], a["pid"]);
}

constexpr char kOtherBoot[] =
    R"({"version": 1, "boot_id": "another", "generation": 1, "devices": [], "instances": []})";
INSTANTIATE_TEST_SUITE_P(, NodeJson,
                         testing::Values(std::pair("", "is missing"),
                                         std::pair("{\"version\": 1, \"dev",
                                                   "cannot be understood"),
                                         std::pair("[]", "cannot be understood"),
                                         std::pair(kOtherBoot, "is missing or not the last one")));

// A record may be wrong: edited, or from a faulty disk. The process that it names is then not ours
// to end.
TEST(NodeFaults, ARecordThatNamesAnotherProgramsProcessSignalsNothing) {
  for (const char* state_then : {"starting", "ready"}) {
    Node node;
    const Fd instance = pidfd_in(node.ready("a", 300));
    node.stop(SIGKILL);
    const pid_t stranger = fork();
    if (stranger == 0) {
      execlp("sleep", "sleep", "1000", nullptr);
      _exit(127);
    }
    const Fd pidfd = pidfd_of(stranger);
    json state = json::parse(std::ifstream(node.state_file()));
    json& record = state["instances"][0];
    record["state"] = state_then;
    record["pid"] = stranger;
    record["start_time"] = node::identity_of(stranger)->start_time;
    std::ofstream(node.state_file()) << state;
    node.launch();
    node.wait("a", "gone");
    EXPECT_FALSE(ends_within(pidfd, Nanos(0))) << state_then;
    kill(stranger, SIGKILL);
    waitpid(stranger, nullptr, 0);
    syscall(SYS_pidfd_send_signal, instance.get(), SIGKILL, nullptr, 0);
  }
}

TEST(NodeFaults, AKilledInstanceSaysSoAndFreesItsShare) {
  Node node;
  kill(node.ready("a", 1000, "busy")["pid"].get<pid_t>(), SIGKILL);
  EXPECT_THAT(node.wait("a", "gone")["error"].get<std::string>(), HasSubstr("signal 9 (Killed)"));
  node.ready("b", 1000);
}

TEST(NodeFaults, ZygoteAndTemplatesMayDie) {
  Node node;
  const json a = node.ready("a", 100);
  for (const char* who : {"template", "zygote"}) {
    const pid_t pid = logged_pid(node, who);
    ASSERT_GT(pid, 0) << node.log();
    const Fd pidfd = pidfd_of(pid);
    kill(pid, SIGKILL);
    ASSERT_TRUE(ends_within(pidfd, Seconds(30)));
    const std::string id = std::string("after-") + who;
    node.ready(id, 100);                   // of the same model
    node.ready(id + "-2", 100, "slow 1");  // of a new one
  }
  EXPECT_FALSE(ends_within(pidfd_in(a), Nanos(0)));
}

TEST(NodeFaults, AStoppedPermitHolderDoesNotStopItsNeighbours) {
  Node node;
  const json holder = node.ready("holder", 500, "busy");
  node.ready("neighbour", 500);
  kill(holder["pid"].get<pid_t>(), SIGSTOP);
  EXPECT_EQ(node.ask("neighbour", "/burn?ms=200")["gate"], 1);
  kill(holder["pid"].get<pid_t>(), SIGCONT);
  EXPECT_EQ(node.ask("neighbour", "/burn?ms=20")["gate"], 1);
}

TEST(NodeFaults, ASecondDaemonOnTheSameDataIsTurnedAway) {
  Node node;
  node.get("/v1/state");  // runs
  const Ended second = run_daemon(flags_for(node.data));
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.said, HasSubstr(node.data + ": another node daemon runs on this data"));
}

// As root, instances of two platforms must not be able to signal each other. Each keeps its block
// of uids while instances of it run, with and without a daemon.
TEST(NodeFaults, TwoPlatformsNeverShareUids) {
  if (geteuid() != 0) GTEST_SKIP() << "instances have uids of their own as root alone";
  const auto block_of = [](const json& instance) { return instance["uid"].get<uid_t>() / 1000; };
  Node one, other;
  const uid_t first = block_of(one.ready("a", 200));
  EXPECT_NE(block_of(other.ready("a", 200)), first);
  one.stop(SIGKILL);
  Node third;
  EXPECT_NE(block_of(third.ready("a", 200)), first);
  const std::string wish = " --first-uid " + std::to_string(first * 1000);
  const TemporaryFolder folder;
  EXPECT_THAT(run_daemon(flags_for(folder.path) + wish).said,
              HasSubstr("first-uid: uids " + std::to_string(first * 1000) + " to "));
  one.launch();
  EXPECT_EQ(block_of(one.ready("b", 200)), first);
  const Ended refused = run_daemon(flags_for(folder.path) + wish);
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.said, HasSubstr("process " + std::to_string(one.pid())));
}

TEST(NodeFaults, WhatCannotBeIsSaidBeforeAnythingStarts) {
  Node node;
  node.stop(SIGTERM);
  // The harness still listens on node.sock.
  EXPECT_THAT(run_daemon(flags_for(node.data)).said, HasSubstr("node.sock"));
  EXPECT_THAT(run_daemon("--data " + node.data + " --runtime /no/such").said,
              HasSubstr("runtime: /no/such: No such file"));
  EXPECT_THAT(run_daemon(flags_for(node.data) + " --devices 5000").said,
              HasSubstr("--devices: Value 5000 not in range 0 to 1024"));
  EXPECT_THAT(run_daemon(flags_for(node.data) + " --arbiter fair").said, HasSubstr("fair"));
  EXPECT_THAT(run_daemon(flags_for(node.data) + " --arbiter shares --nvml none").said,
              HasSubstr("arbiter: 'shares' is none of planned"));
  EXPECT_THAT(run_daemon(flags_for("/proc/nowhere")).said, HasSubstr("/proc/nowhere"));
  std::ofstream(node.state_file()) << "{\"version\": 1, \"devic";
  EXPECT_THAT(run_daemon(flags_for(node.data)).said,
              AllOf(HasSubstr("cannot be understood"),
                    HasSubstr("No instance of this platform runs: remove the file")));
  std::filesystem::remove(node.state_file());
  node.launch();
}

TEST(NodeFaults, GroupsOfPlatformsThatWereKilledWholeAreRemovedByTheNextDaemon) {
  Node node;
  const json a = node.ready("a", 300);
  const std::filesystem::path living = cpu_group_of(a["pid"]);
  if (living.empty()) GTEST_SKIP() << "no cgroups of our own here";
  const std::filesystem::path all = living.parent_path().parent_path().parent_path(),
                              left = all / ("sluice-node-left-by-" + std::to_string(getpid()));
  std::filesystem::create_directories(left / "cpu0/one");
  Node next;
  next.ready("b", 300);
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(living));
  EXPECT_EQ(node.resize("a", 400)["status"], 200);
}

TEST(NodeFaults, AFullDiskRefusesChangesAndKeepsWhatIs) {
  Node node({}, [](const std::string& data) { return mount_small(data, kSmallDisk); });
  if (!node.prepared()) GTEST_SKIP() << "mounting is not allowed here";
  node.ready("a", 300);
  fill(node.data + "/filler");
  for (const json& refused : {node.start("b", 300), node.resize("a", 400)}) {
    EXPECT_EQ(refused["status"], 500);
    EXPECT_THAT(refused["error"].get<std::string>(), HasSubstr("No space left on device"));
  }
  EXPECT_EQ(node.get("/v1/instances/a")["slice"]["request"], 300);
  EXPECT_EQ(node.get("/v1/instances/b")["status"], 404);
  std::filesystem::remove(node.data + "/filler");
  node.ready("b", 700);
}

TEST(NodeFaults, LogsOfInstancesThatEndedLongAgoAreRemoved) {
  std::string old;
  Node node({}, [&](const std::string& data) {
    old = data + "/logs/old-1-abc.log";
    std::filesystem::create_directories(data + "/logs");
    std::ofstream(old) << "said";
    std::filesystem::last_write_time(
        old, std::filesystem::file_time_type::clock::now() - std::chrono::hours(8 * 24));
    return true;
  });
  node.ready("a", 300);
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_TRUE(std::filesystem::exists(node.data + "/logs/a.log"));
}

// A process of another program, and a child of its own.
struct Stranger {
  pid_t pid = 0, child = 0;
  Stranger() {
    int ends[2];
    if (pipe(ends) != 0) return;
    pid = fork();
    if (pid == 0) {
      const pid_t born = fork();
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (born == 0)
        prctl(PR_SET_PDEATHSIG, 0);
      else
        (void)!write(ends[1], &born, sizeof born);
      for (;;) pause();
    }
    (void)!read(ends[0], &child, sizeof child);
    close(ends[0]);
    close(ends[1]);
  }
  void end() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  ~Stranger() {
    kill(child, SIGKILL);
    end();
  }
};

json take(Node& node, const std::string& id, pid_t pid) {
  return node.call(verb::post, "/v1/processes",
                   {{"id", id}, {"pid", pid}, {"device", "cpu0"}, {"slice", Node::slice(300)}});
}

TEST(NodeFaults, AForeignProcessAndItsFamilyHoldOneSlice) {
  Node node;
  Stranger stranger;
  ASSERT_GT(stranger.child, 0);
  const json taken = take(node, "train", stranger.pid);
  EXPECT_EQ(taken["state"], "ready") << taken;
  EXPECT_EQ(take(node, "train", stranger.pid)["status"], 200);
  EXPECT_EQ(take(node, "again", stranger.pid)["status"], 409);
  EXPECT_EQ(take(node, "nobody", 99'999'999)["status"], 400);
  node.restart();
  EXPECT_EQ(node.get("/v1/instances/train")["pid"], stranger.pid);
  EXPECT_EQ(node.start("b", 800)["status"], 429);

  const bool groups = node.log().find("use as the kernel counts it") != std::string::npos;
  stranger.end();
  if (groups) {  // its child goes on under the slice
    json now = node.get("/v1/instances/train");
    for (uint64_t seen = 0; now["pid"] == stranger.pid; now = node.get("/v1/instances/train"))
      seen = node.get("/v1/state?wait_ms=5000&after=" + std::to_string(seen))["version"];
    EXPECT_EQ(now["pid"], stranger.child);
  }
  kill(stranger.child, SIGKILL);
  node.wait("train", "gone");
  node.ready("b", 1000);
}

// As root a program can leave its cgroup by one write.
TEST(NodeFaults, AProgramThatLeavesItsCgroupIsShown) {
  Node node;
  Stranger stranger;
  take(node, "train", stranger.pid);
  const std::filesystem::path group = cpu_group_of(stranger.pid);
  if (group.empty()) GTEST_SKIP() << "no cgroups of our own here";
  const auto error_of = [&](const json& state) -> std::string {
    for (const json& i : state.value("instances", json::array()))
      if (i["id"] == "train") return i["error"];
    return "none";
  };
  EXPECT_EQ(error_of(node.get("/v1/state")), "");
  const auto wait_for = [&](const std::string& error) {
    json now = node.get("/v1/state");
    for (int i = 0; i < 100 && error_of(now) != error; ++i)
      now = node.get("/v1/state?wait_ms=1000&after=" + now["version"].dump());
    EXPECT_EQ(error_of(now), error);
  };
  const auto elsewhere = group.parent_path().parent_path() / "elsewhere";
  std::filesystem::create_directory(elsewhere);
  std::ofstream(elsewhere / "cgroup.procs") << stranger.child;
  wait_for("process " + std::to_string(stranger.child) + " has left its cgroup; nothing holds it");
  std::ofstream(group / "cgroup.procs") << stranger.child;
  wait_for("");
  EXPECT_TRUE(std::filesystem::remove(elsewhere));
}

TEST(NodeFaults, AReleasedForeignProcessGoesOn) {
  Node node;
  Stranger stranger;
  take(node, "train", stranger.pid);
  EXPECT_EQ(node.remove("train")["status"], 202);
  EXPECT_EQ(node.get("/v1/instances/train")["error"], "released");
  EXPECT_FALSE(ends_within(pidfd_of(stranger.pid), Nanos(0)));
  node.ready("b", 1000);
}

}  // namespace
}  // namespace sluice
