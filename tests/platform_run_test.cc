// Programs of the user's own under slices: `sluice run` and `sluice resize` on a whole platform.
#include <sys/wait.h>

#include "tests/platform_harness.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// `sluice run` of a program that ends when it is killed.
class Running {
 public:
  Running(const Platform& p, const std::string& id, const std::string& device) : pid_(fork()) {
    if (pid_ != 0) return;
    const std::string sluice = program("sluice");
    execl(sluice.c_str(), sluice.c_str(), "--data", p.data.c_str(), "run", "--device",
          device.c_str(), "--quota", "20", "--id", id.c_str(), "--", "/bin/sleep", "3600", nullptr);
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

// The living one of that name, as soon as there is one.
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
    return !all.empty() && all[0]["state"] == "gone" && all[0]["used_ms"] >= 50;
  });
  EXPECT_THAT(p.cli({"get", "instances", "counts"}).out, HasSubstr("gone"));
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
      {{"resize", "mine", "--quota", "50", "--limit", "40"}, 2, "400 is below the request of 500"},
      {{"resize", "mine", "--memory", "1G"}, 2, "mine was started without one"},
      {{"resize", "nobody", "--quota", "50"}, 3, "there is no instance 'nobody'"},
      {{"resize", instance, "--quota", "50"}, 2, "is an instance of a function"},
      {{"run", "--memory", "much", "--", "/bin/true"}, 2, "--memory: "},
      {{"run", "--memory", "1G", "--", "/bin/true"}, 2, "slice.memory: cpu0 is no GPU"},
      {{"run", "--device", "cpu9", "--", "/bin/true"}, 2, "there is no 'cpu9' on this node"},
      {{"run", "--id", "mine", "--", "/bin/true"}, 5, "'mine' is another instance"},
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
