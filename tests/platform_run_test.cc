// Programs of the user's own under slices: `sluice run` and `sluice resize` on a whole platform.
#include <sys/wait.h>

#include <fstream>
#include <sstream>

#include "tests/support/platform.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// `sluice run` of a program that ends when it is killed.
class Running {
 public:
  Running(const Platform& p, const std::string& id, const std::string& device,
          const std::string& quota = "20",
          const std::vector<std::string>& command = {"/bin/sleep", "3600"})
      : pid_(fork()) {
    if (pid_ != 0) return;
    std::vector<std::string> words{program("sluice"), "--data", p.data, "run", "--device", device,
                                   "--quota",         quota,    "--id", id,    "--"};
    words.insert(words.end(), command.begin(), command.end());
    std::vector<char*> argv;
    for (std::string& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  ~Running() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Running(const Running&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

// Returns the living program of that name, once there is one.
json listed(const Platform& p, const std::string& id) {
  const auto find = [&](const json& all) {
    for (const json& i : all)
      if (i["id"] == id && i["state"] != "gone") return i;
    return json();
  };
  return find(p.until("/v1/instances", [&](const json& all) { return !find(all).is_null(); }));
}

TEST(PlatformRun, AProgramIsUnderItsSliceAndResizedWhileItRuns) {
  Platform p;
  {
    const Running sleeper(p, "mine", "cpu1");
    const json before = listed(p, "mine");
    EXPECT_EQ(before["pid"], sleeper.pid());
    EXPECT_EQ(before["device"], "cpu1");
    EXPECT_EQ(before["slice"]["request"], 200);
    EXPECT_EQ(before["foreign"], true);

    EXPECT_EQ(p.cli({"resize", "mine", "--limit", "60"}).out, "mine: quota 20%, limit 60%\n");
    EXPECT_EQ(p.cli({"resize", "mine", "--quota", "70"}).out, "mine: quota 70%, limit 70%\n");
    EXPECT_EQ(p.cli({"resize", "mine", "--quota", "62.5%"}).out,
              "mine: quota 62.5%, limit 62.5%\n");
    EXPECT_EQ(p.cli({"resize", "mine", "--limit", "70"}).out, "mine: quota 62.5%, limit 70%\n");
    EXPECT_EQ(p.cli({"resize", "mine", "--quota", "0.3"}).out, "mine: quota 30%, limit 70%\n");
    EXPECT_EQ(p.cli({"resize", "mine", "--quota", "1"}).out, "mine: quota 1%, limit 70%\n");
    const json slice = p.cli_json({"resize", "mine", "--quota", "30", "--limit", "40"})["slice"];
    EXPECT_EQ(slice["request"], 300);
    EXPECT_EQ(slice["limit"], 400);
    EXPECT_EQ(slice["sm"], 1000);
    EXPECT_EQ(p.cli({"resize", "mine", "--slo", "50ms", "--tolerance", "1.3"}).out,
              "mine: quota 30%, limit 40%, slo 50ms\n");
    const json shown = p.get("/v1/instances")[0]["slice"];
    EXPECT_EQ(shown["slo_us"], 50'000);
    EXPECT_EQ(shown["tolerance"], 1300);
    EXPECT_THAT(p.cli({"get", "instances"}).out, HasSubstr("50ms"));
    EXPECT_EQ(p.cli({"resize", "mine", "--slo", "none"}).out, "mine: quota 30%, limit 40%\n");
  }
  p.until("/v1/instances",
          [](const json& all) { return all.empty() || all[0]["state"] == "gone"; });
}

// The CPU time of a process and its threads, as the kernel counts it.
Nanos cpu_time(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(stat), {}};
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  int64_t user = 0, system = 0;
  fields >> user >> system;
  return from_seconds(static_cast<double>(user + system) /
                      static_cast<double>(sysconf(_SC_CLK_TCK)));
}

// A loop that asks for nothing: the kernel's quota holds it, at 1.2 × its limit over 500 ms, and
// may add two periods to any span (cgroup.h). One-sided, by the kernel's count.
TEST(PlatformRun, ABusyProgramUsesNoMoreOfACpuDeviceThanItsSlice) {
  Platform p;
  if (!p.get("/v1/status")["backstop"]) GTEST_SKIP() << "no cgroups that can be written";
  const Running busy(p, "busy", "cpu1", "20", {"/bin/sh", "-c", "while :; do :; done"});
  const pid_t pid = listed(p, "busy")["pid"];
  const double device = [&] {
    for (const json& d : p.get("/v1/devices"))
      if (d["id"] == "cpu1") return d["millicores"].get<double>() / 1000;
    return 0.0;
  }();
  ASSERT_GT(device, 0);
  SteadyClock clock;
  const auto share_over = [&](Nanos span) {
    const Nanos used = cpu_time(pid);
    const Time begin = clock.now();
    while (clock.now() - begin < span) std::this_thread::sleep_for(Millis(50));
    return seconds(cpu_time(pid) - used) / seconds(clock.now() - begin) / device;
  };
  const double bound = 1.05 * 1.2 * (3.0 + 2 * 0.5) / 3.0;
  const double before = share_over(Seconds(3));
  EXPECT_LE(before, bound * 0.2);
  EXPECT_GT(before, 0);
  EXPECT_EQ(p.cli({"resize", "busy", "--quota", "5", "--limit", "5"}).code, 0);
  const double after = share_over(Seconds(3));
  EXPECT_LE(after, bound * 0.05);
  EXPECT_GT(after, 0);
}

TEST(PlatformRun, AProgramOfNoDeviceGetsTheFirstWithRoom) {
  Platform p;
  for (const char* device : {"cpu0", "cpu3"}) EXPECT_EQ(p.cli({"drain", device}).code, 0);
  const auto run = [&](const char* id) {
    return p.cli({"run", "--quota", "30", "--id", id, "--", "/bin/true"});
  };
  const Running first(p, "first", "cpu1", "80%");
  listed(p, "first");
  const Ended beside = run("new");
  EXPECT_EQ(beside.code, 0);
  EXPECT_THAT(beside.err, HasSubstr("new runs on cpu2, the first device with room"));

  const Running second(p, "second", "cpu2", "0.75");
  listed(p, "second");
  const Ended nowhere = run("another");
  EXPECT_EQ(nowhere.code, 5) << nowhere.err;
  EXPECT_THAT(nowhere.err, HasSubstr("no room for sm 100% × request 30% "));
  const std::string reserved =
      "cpu0 is drained, cpu1 is 80% reserved, cpu2 is 75% reserved and cpu3 is drained";
  EXPECT_THAT(nowhere.err, HasSubstr(reserved));
  const Running third(p, "third", "cpu2", "0.2");
  listed(p, "third");
  const Ended larger = p.cli({"resize", "third", "--quota", "30"});
  EXPECT_EQ(larger.code, 5) << larger.err;
  EXPECT_THAT(larger.err, HasSubstr("cpu1 is 80% reserved, cpu2 is 95% reserved"));
  EXPECT_THAT(larger.err, HasSubstr("has to be started there"));
}

TEST(PlatformRun, AProgramHasNoLogAndNoDecisions) {
  Platform p;
  const Running sleeper(p, "mine", "cpu1");
  listed(p, "mine");
  const Ended logs = p.cli({"logs", "mine"}), decisions = p.cli({"get", "decisions", "mine"});
  EXPECT_EQ(logs.code, 3);
  EXPECT_THAT(logs.err, HasSubstr("'mine' is a program of `sluice run`: what it prints goes to "));
  EXPECT_EQ(decisions.code, 3);
  EXPECT_THAT(decisions.err, HasSubstr("'mine' is a program of `sluice run`: no policy decides"));
}

TEST(PlatformRun, DownNamesTheProgramsThatGoOnWithoutASlice) {
  Platform p;
  const Running sleeper(p, "mine", "cpu1");
  listed(p, "mine");
  const Ended down = p.cli({"down"});
  EXPECT_EQ(down.code, 0);
  EXPECT_THAT(down.err, HasSubstr("mine goes on, held to no slice any more"));
  EXPECT_EQ(kill(sleeper.pid(), 0), 0);
}

TEST(PlatformRun, AnEndedProgramKeepsWhatItUsed) {
  Platform p;
  const std::string counts = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
  const Ended e = p.cli({"run", "--device", "cpu1", "--quota", "80", "--id", "counts", "--",
                         "/bin/sh", "-c", counts});
  EXPECT_EQ(e.code, 0) << e.err;
  p.until("/v1/instances", [](const json& all) {
    return !all.empty() && all[0]["state"] == "gone" && all[0]["used_ms"] > 0;
  });
  EXPECT_THAT(p.cli({"get", "instances", "counts"}).out, HasSubstr("gone"));
}

TEST(PlatformRun, TheIdOfAnEndedProgramIsFree) {
  Platform p;
  for (const std::string word : {"once", "twice"}) {
    const Ended e = p.cli({"run", "--device", "cpu1", "--id", "train", "--", "/bin/echo", word});
    EXPECT_EQ(e.code, 0) << e.err;
    EXPECT_EQ(e.out, word + "\n");
  }
  p.until("/v1/instances", [](const json& all) {
    return all.size() == 1 && all[0]["id"] == "train" && all[0]["state"] == "gone";
  });
}

struct Refusal {
  std::vector<std::string> words;
  int code;
  std::string why;
};

TEST(PlatformRun, WhatCannotBeIsRefusedWithItsReason) {
  Platform p;
  p.deploy({.name = "f"});
  const Running sleeper(p, "mine", "cpu3");
  listed(p, "mine");
  const std::string instance = p.instances()[0]["id"];
  const std::vector<Refusal> all = {
      {{"resize", "mine"}, 2, "say what to change: --quota, --limit, --sm, --memory, --slo"},
      {{"resize", "mine", "--slo", "soon"}, 2, "--slo: "},
      {{"run", "--tolerance", "1.3", "--", "/bin/true"}, 2, "slice.tolerance: 1300 means nothing"},
      {{"run", "--slo", "5us", "--", "/bin/true"}, 2, "slice.slo_us: 5 is below 100"},
      {{"resize", "mine", "--quota", "50", "--limit", "40"},
       2,
       "--limit: 40% is below the quota of 50%"},
      {{"run", "--quota", "50", "--limit", "0.4", "--", "/bin/true"},
       2,
       "--limit: 40% is below the quota of 50%"},
      {{"run", "--quota", "0", "--", "/bin/true"},
       2,
       "--quota: \"0%\" is not a share: a percentage"},
      {{"run", "--limit", "101", "--", "/bin/true"}, 2, "--limit: \"101%\" is not a share"},
      {{"resize", "mine", "--sm", "-5"}, 2, "--sm: \"-5\" is not a share"},
      {{"resize", "mine", "--memory", "1G"}, 2, "mine was started without one"},
      {{"resize", "nobody", "--quota", "50"}, 3, "there is no instance 'nobody'"},
      {{"resize", instance, "--quota", "50"}, 2, "is an instance of a function"},
      {{"run", "--memory", "much", "--", "/bin/true"}, 2, "--memory: "},
      {{"run", "--memory", "1G", "--", "/bin/true"}, 2, "slice.memory: cpu0 is no GPU"},
      {{"run", "--device", "cpu9", "--", "/bin/true"}, 3, "there is no 'cpu9' on this node"},
      {{"run", "--id", "mine", "--", "/bin/true"}, 5, "'mine' is taken by a program that runs"},
      {{"run", "--", "/bin/nothing"}, 3, "/bin/nothing: cannot be run"}};
  for (const Refusal& r : all) {
    const Ended e = p.cli(r.words);
    EXPECT_EQ(e.code, r.code) << r.why << ": " << e.err;
    EXPECT_THAT(e.err, HasSubstr(r.why));
    EXPECT_THAT(e.out, IsEmpty());
  }
  EXPECT_EQ(listed(p, "mine")["slice"]["request"], 200);
}

}  // namespace
}  // namespace sluice
