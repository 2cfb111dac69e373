// The platform for a user without root: one uid, no cgroups unless they were delegated. As root,
// the tests take on such a user; otherwise they run as the current user.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>

#include "tests/support/platform.h"
#include "wire/permit.h"

namespace sluice {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr uid_t kNobodyElses = 54321;

uid_t ordinary_user() {
  return geteuid() == 0 ? kNobodyElses : geteuid();
}

json on_node(const Platform& p, verb method, const std::string& target, const json& body) {
  wire::HttpClient node({.path = p.data + "/run/node.sock"}, kPatience);
  const auto answer = node.json(method, target, body);
  return answer.ok() ? *answer : json(answer.error().message);
}

json whole_slice(int request) {
  return {{"sm", 1000}, {"request", request}, {"limit", request}, {"memory", 0}};
}

// Returns the CPU time of a process as the kernel counts it.
Nanos used_by(pid_t pid) {
  clockid_t id;
  timespec t{};
  SLUICE_CHECK(clock_getcpuclockid(pid, &id) == 0 && clock_gettime(id, &t) == 0, "its CPU clock");
  return Seconds(t.tv_sec) + Nanos(t.tv_nsec);
}

// Returns its share of a core over a span of wall time.
double share_over(pid_t pid, Nanos span) {
  const SteadyClock clock;
  const Time begin = clock.now();
  const Nanos before = used_by(pid);
  std::this_thread::sleep_for(span);  // the measurement itself
  return std::chrono::duration<double>(used_by(pid) - before) /
         std::chrono::duration<double>(clock.now() - begin);
}

// Returns an instance that always computes, on a device that the loop leaves to `sluice profile`.
json busy_instance(const Platform& p, const std::string& device, int request) {
  on_node(p, verb::post, "/v1/instances",
          {{"id", "busy"},
           {"function", "sluice-profile/busy"},
           {"device", device},
           {"slice", whole_slice(request)},
           {"model", {{"path", p.model("busy")}, {"format", "torchscript"}}}});
  const json all = p.until("/v1/instances", [](const json& now) {
    for (const json& i : now)
      if (i["id"] == "busy" && i["state"] == "ready") return true;
    return false;
  });
  for (const json& i : all)
    if (i["id"] == "busy") return i;
  return nullptr;
}

TEST(PlatformUnprivileged, ServesAndEndsAsTheUser) {
  Platform p({}, {}, ordinary_user());
  p.deploy({.replicas = 2});
  EXPECT_EQ(p.ask()["status"], 200);
  EXPECT_EQ(p.ask()["uid"], ordinary_user());
  EXPECT_EQ(p.ask()["gate"], 1) << "not attached";
  p.deploy({.replicas = 2, .request = 30});
  EXPECT_EQ(p.cli({"rollback", "f"}).code, 0);
  p.wait_until_settled("f", 2);
  EXPECT_EQ(p.cli({"drain", p.instances()[0]["device"]}).code, 0);
  const std::set<pid_t> instances = p.pids();
  EXPECT_EQ(p.cli({"down"}).code, 0);
  EXPECT_EQ(p.stop(), 0) << p.said();
  for (const pid_t pid : instances) EXPECT_TRUE(is_dead(pid));
  for (const char* name : {"node", "control", "gateway"}) EXPECT_EQ(p.pid_of(name), 0) << name;
}

TEST(PlatformUnprivileged, TheMissingBackstopIsSaidOnceAndShown) {
  Platform p({}, {}, ordinary_user());
  p.deploy({});
  const std::string missing = "permits alone enforce the slices";
  const json status = p.get("/v1/status");
  const bool backstop = status["backstop"];
  EXPECT_FALSE(geteuid() == 0 && backstop) << "cgroups that anybody may write";
  EXPECT_THAT(status["enforcement"], HasSubstr("instances share this user's uid"));
  EXPECT_THAT(p.cli({"describe", "f"}).out, HasSubstr("enforcement: "));
  for (const json& device : p.get("/v1/devices")) EXPECT_EQ(device["backstop"], backstop);
  const std::string devices = p.cli({"get", "devices"}).out, said = p.said();
  EXPECT_THAT(devices, HasSubstr(backstop ? " kernel " : " none "));
  EXPECT_EQ(said.find(missing) == std::string::npos, backstop) << said;
  EXPECT_EQ(said.find(missing), said.rfind(missing)) << said;
  EXPECT_THAT(
      p.cli({"describe", "f"}).out,
      backstop ? testing::Matcher<std::string>(Not(HasSubstr(missing))) : HasSubstr(missing));
}

// One-sided: noise makes it use less, never more. Only permits hold it: there is nothing else.
TEST(PlatformUnprivileged, ABusyInstanceIsHeldToWhatItWasResizedTo) {
  Platform p({}, {}, ordinary_user());
  const json device = p.get("/v1/devices")[0];
  const json busy = busy_instance(p, device["id"], 600);
  ASSERT_FALSE(busy.is_null());
  const json resized = on_node(p, verb::patch, "/v1/instances/busy", {{"slice", whole_slice(200)}});
  ASSERT_TRUE(resized.is_object()) << resized;
  EXPECT_EQ(resized["slice"]["request"], 200);
  const pid_t pid = busy["pid"];
  const double share = share_over(pid, Seconds(3)) * 1000 / device["millicores"].get<double>();
  EXPECT_LE(share, 0.30);
  EXPECT_GT(share, 0) << "it did not run at all";
  RecordProperty("share", std::to_string(share));
  std::printf("share %.3f\n", share);
}

// A process with a child that waits for a word and then reports its gate's state.
struct ProgramWithChild {
  explicit ProgramWithChild(const std::string& permit_socket) {
    SLUICE_CHECK(pipe(go) == 0 && pipe(state) == 0, "pipe");
    pid = fork();
    if (pid != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      char word;
      (void)!read(go[0], &word, 1);
      sluice_gate gate{.socket_path = permit_socket.c_str()};
      sluice_thread* mine = nullptr;
      sluice_gate_pass(&gate, &mine);
      word = static_cast<char>(sluice_gate_state(&gate));
      (void)!write(state[1], &word, 1);
    }
    for (;;) pause();
  }
  ~ProgramWithChild() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    for (const int fd : {go[0], go[1], state[0], state[1]}) close(fd);
  }
  int state_of_childs_gate() const {
    char word = 0;
    EXPECT_EQ(write(go[1], &word, 1), 1);
    EXPECT_EQ(read(state[0], &word, 1), 1);
    return word;
  }
  pid_t pid = 0;
  int go[2], state[2];
};

TEST(PlatformUnprivileged, AChildOfAForeignProgramIsUnderItsSlice) {
  Platform p({}, {}, ordinary_user());
  const ProgramWithChild program(p.data + "/run/permit.sock"),
      stranger(p.data + "/run/permit.sock");
  const json taken = on_node(
      p, verb::post, "/v1/processes",
      {{"id", "program"}, {"pid", program.pid}, {"device", "cpu0"}, {"slice", whole_slice(200)}});
  ASSERT_TRUE(taken.is_object()) << taken;
  EXPECT_EQ(program.state_of_childs_gate(), SLUICE_GATE_ATTACHED);
  EXPECT_EQ(stranger.state_of_childs_gate(), SLUICE_GATE_OPEN);
}

// A child whose own child computes and knows of no permits.
struct BusyProgram {
  BusyProgram() {
    int ends[2];
    if (pipe(ends) != 0) return;
    pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const pid_t child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) (void)getppid();
      }
      if (write(ends[1], &child, sizeof child) < 0) _exit(1);
      for (;;)
        if (wait(nullptr) < 0) pause();
    }
    close(ends[1]);
    if (read(ends[0], &worker, sizeof worker) < 0) worker = 0;
    close(ends[0]);
  }
  ~BusyProgram() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  // Ends the child's child; the child waits for it.
  void end_worker() const {
    ASSERT_GT(worker, 0);
    kill(worker, SIGKILL);
    EXPECT_TRUE(eventually("the worker to be reaped", [&] { return kill(worker, 0) != 0; }));
  }
  pid_t pid = 0, worker = 0;
};

TEST(PlatformUnprivileged, AProgramThatNothingHoldsIsShown) {
  Platform p({}, {}, ordinary_user());
  if (p.get("/v1/status")["backstop"]) GTEST_SKIP() << "cgroups that anybody may write";
  EXPECT_THAT(p.cli({"run", "--device", "cpu0", "--quota", "20", "--", "/bin/true"}).err,
              HasSubstr("not held to its slice"));
  const BusyProgram program;
  const json taken = on_node(
      p, verb::post, "/v1/processes",
      {{"id", "burner"}, {"pid", program.pid}, {"device", "cpu0"}, {"slice", whole_slice(200)}});
  ASSERT_TRUE(taken.is_object()) << taken;
  p.until("/v1/instances", [](const json& all) {
    for (const json& i : all)
      if (i["id"] == "burner") return i["error"].get<std::string>().starts_with("nothing holds it");
    return false;
  });
  program.end_worker();
  EXPECT_THAT(p.cli({"get", "instances"}).out, HasSubstr("nothing holds it"));
  EXPECT_THAT(on_node(p, verb::get, "/v1/state", nullptr).dump(), HasSubstr("nothing holds it"))
      << "the CPU time of the processes alive fell";
}

}  // namespace
}  // namespace sluice
