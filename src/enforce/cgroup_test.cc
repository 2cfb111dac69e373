#include "enforce/cgroup.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "enforce/meter_cpu.h"
#include "tests/support/burner.h"
#include "tests/support/eventually.h"

namespace sluice::node {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A machine whose /proc and cgroup files are plain files.
class FakeMachine {
 public:
  FakeMachine() : root_(testing::TempDir() + "/machine-" + std::to_string(getpid())) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_ + "/proc");
  }
  ~FakeMachine() { std::filesystem::remove_all(root_); }

  void mounts(const std::string& lines) { write("/proc/mountinfo", lines); }
  void own(const std::string& lines) { write("/proc/cgroup", lines); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  Cgroups detect() { return Cgroups::detect("sluice-test", root_ + "/proc"); }
  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

TEST(Cgroups, SaysWhatIsLeftWhereThereAreNone) {
  FakeMachine machine;
  machine.mounts("1 0 0:1 / / rw - ext4 /dev/sda rw\n");
  const Cgroups cgroups = machine.detect();
  EXPECT_FALSE(cgroups.writable());
  EXPECT_THAT(cgroups.describe(), HasSubstr("permits alone"));
  EXPECT_EQ(cgroups.open("cpu0").error().kind, ErrorKind::kUnavailable);
}

TEST(Cgroups, SaysWhyTheyCannotBeWritten) {
  FakeMachine machine;
  machine.mounts("1 0 0:1 / " + machine.root() + "/cg rw - cgroup2 cgroup2 rw\n");
  machine.own("0::/user.slice\n");
  machine.write("/cg/user.slice/cgroup.controllers", "cpuset cpu io\n");
  const Cgroups cgroups = machine.detect();
  EXPECT_FALSE(cgroups.writable());
  EXPECT_THAT(cgroups.describe(), HasSubstr("/cg/user.slice/cgroup.subtree_control"));
  EXPECT_THAT(cgroups.describe(), HasSubstr("permits alone"));
}

// An earlier daemon moved itself into a leaf, and this one was started there.
TEST(Cgroups, AreMadeWhereAnEarlierDaemonMadeThem) {
  FakeMachine machine;
  machine.mounts("1 0 0:1 / " + machine.root() + "/cg rw - cgroup2 cgroup2 rw\n");
  machine.own("0::/system.slice/sluice.service/host\n");
  machine.write("/cg/system.slice/sluice.service/cgroup.controllers", "cpuset cpu io\n");
  EXPECT_THAT(machine.detect().describe(),
              HasSubstr("/cg/system.slice/sluice.service/cgroup.subtree_control"));
}

TEST(Backstop, StandsAboveTheLimit) {
  const Slice slice{.sm = {500}, .quota = {{200}, {400}}};
  EXPECT_NEAR(backstop_millicores(slice, 2000, {.margin = 1.2, .period = Millis(500)}), 480, 0.01);
}

// The tests below use the machine's own groups, and are skipped where they cannot be written.
class RealCgroups : public testing::Test {
 protected:
  RealCgroups() : cgroups(Cgroups::detect("sluice-test-" + std::to_string(getpid()))) {}
  void SetUp() override {
    if (!cgroups.writable()) GTEST_SKIP() << cgroups.describe();
  }
  void TearDown() override {
    if (cgroups.writable()) (void)cgroups.open("")->remove();
  }
  // Returns a core that this process may use.
  static int a_core() {
    cpu_set_t cores;
    EXPECT_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
    int core = 0;
    while (core + 1 < CPU_SETSIZE && !CPU_ISSET(core, &cores)) ++core;
    return core;
  }
  Cgroups cgroups;
};

TEST_F(RealCgroups, HoldAProcessAndCountWhatItUses) {
  Result<Cgroup> group = cgroups.open("cpu0/one");
  ASSERT_TRUE(group.ok()) << group.error().message;
  Burner burner;
  EXPECT_TRUE(group->add(burner.pid()).ok());
  EXPECT_THAT(group->processes(), ElementsAre(burner.pid()));
  EXPECT_TRUE(group->set_quota(250, Millis(100)).ok());
  EXPECT_TRUE(group->set_cores({a_core()}).ok());
  EXPECT_TRUE(cgroups.open("")->set_weight(kDevicesWeight).ok());
  auto counter = CgroupCounter::open(group->usage_file());
  ASSERT_TRUE(counter.ok()) << counter.error().message;
  burner.burn(Millis(30));
  EXPECT_GE((*counter)->read(), Millis(20));  // a tick or two behind until it rests
  EXPECT_FALSE(group->remove().ok());         // a process is in it

  burner.end();
  EXPECT_TRUE(eventually("the group to be left", [&] { return group->processes().empty(); }));
  EXPECT_TRUE(group->set_quota(0, Millis(100)).ok());
  EXPECT_TRUE(group->remove().ok());
  EXPECT_TRUE(cgroups.open("cpu0")->remove().ok());
}

// A child of the group that ends by itself, by SIGKILL from outside, or by taking 64 MiB.
enum class Ends { kByItself, kBySignal, kByMemory };
bool kernel_says_memory(const Cgroup& group, Ends how) {
  const pid_t child = fork();
  if (child == 0) {
    Cgroup mine = group;
    if (!mine.add(getpid()).ok()) _exit(1);
    std::string taken;
    if (how == Ends::kByMemory) taken.assign(64 << 20, 'x');
    if (how == Ends::kBySignal) raise(SIGKILL);
    _exit(taken.empty() ? 0 : taken[0]);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WIFSIGNALED(status), how != Ends::kByItself);
  return group.killed_by_memory_limit();
}

TEST_F(RealCgroups, LimitMemoryAndTellAKillAtTheLimitFromOthers) {
  if (!cgroups.limits_memory()) GTEST_SKIP() << "no memory controller here";
  Result<Cgroup> group = cgroups.open("one");
  ASSERT_TRUE(group.ok());
  EXPECT_TRUE(group->set_memory(Bytes{32} << 20).ok());
  EXPECT_TRUE(group->set_memory(Bytes{48} << 20).ok());  // up and down
  EXPECT_TRUE(group->set_memory(Bytes{32} << 20).ok());
  EXPECT_FALSE(kernel_says_memory(*group, Ends::kByItself));
  EXPECT_FALSE(kernel_says_memory(*group, Ends::kBySignal));
  EXPECT_TRUE(kernel_says_memory(*group, Ends::kByMemory));
  EXPECT_TRUE(group->remove().ok());
}

// As in a unit that systemd delegates, or a privileged container: v2 passes controllers on only
// from a group without processes, and this process is in it.
TEST_F(RealCgroups, AGroupWithProcessesInItIsMadeFitForOurs) {
  if (cgroups.describe().find("v2") == std::string::npos) GTEST_SKIP() << "no cgroup v2 here";
  Result<Cgroup> unit = cgroups.open("unit");
  ASSERT_TRUE(unit.ok());
  const pid_t child = fork();
  if (child == 0) {
    if (!unit->add(getpid()).ok()) _exit(1);
    const Cgroups within = Cgroups::detect("within");
    if (!within.writable() || !within.open("cpu0")->set_quota(500, Millis(100)).ok()) _exit(2);
    const Cgroups again = Cgroups::detect("within");  // from the leaf
    if (again.open("cpu0")->usage_file() != within.open("cpu0")->usage_file()) _exit(3);
    for (const char* path : {"cpu0", ""})
      if (!within.open(path)->remove().ok()) _exit(4);
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "step " << WEXITSTATUS(status);
  EXPECT_TRUE(cgroups.open("unit/host")->remove().ok());
  EXPECT_TRUE(unit->remove().ok());
}

// Platforms that were killed whole: their groups stay, not marked as in use.
TEST_F(RealCgroups, WhatNobodyUsesIsRemovedAndNothingElse) {
  const std::string prefix = "sluice-test-" + std::to_string(getpid()) + "-";
  const auto leaf_of = [](const Cgroups& platform) {
    return std::filesystem::path(platform.open("cpu0/one")->usage_file()).parent_path();
  };
  const auto left_by = [&](const char* name) { return leaf_of(Cgroups::detect(prefix + name)); };
  const Cgroups alive = Cgroups::detect(prefix + "alive");
  const std::filesystem::path empty_of_living = leaf_of(alive), gone = left_by("gone"),
                              populated = left_by("populated"), other = left_by("other");
  Burner burner;
  ASSERT_TRUE(Cgroups::detect(prefix + "populated").open("cpu0/one")->add(burner.pid()).ok());

  cgroups.remove_abandoned(prefix + "gone");
  EXPECT_FALSE(std::filesystem::exists(gone.parent_path().parent_path()));
  EXPECT_TRUE(std::filesystem::exists(other));
  cgroups.remove_abandoned(prefix);
  EXPECT_TRUE(std::filesystem::exists(empty_of_living));
  EXPECT_TRUE(std::filesystem::exists(populated));
  EXPECT_FALSE(std::filesystem::exists(other));

  burner.end();
  for (const char* leaf : {"cpu0/one", "cpu0", ""}) EXPECT_TRUE(alive.open(leaf)->remove().ok());
  EXPECT_TRUE(eventually("the last one to be removed", [&] {
    cgroups.remove_abandoned(prefix);
    return !std::filesystem::exists(populated);
  }));
}

}  // namespace
}  // namespace sluice::node
