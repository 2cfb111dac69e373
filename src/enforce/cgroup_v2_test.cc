// Cgroup v2 where only v1 is mounted: a recorded hierarchy of plain files, read and written by the
// same code. This program's mkdir() and rmdir() do the kernel's part below its folder: a new group
// has its files, and a group goes although it has files.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "enforce/cgroup.h"
#include "tests/support/folder.h"

namespace {

namespace fs = std::filesystem;

std::string recorded;  // the hierarchy's folder; empty: none

bool is_recorded(const char* path) {
  return !recorded.empty() && std::string_view(path).starts_with(recorded);
}

// What a group below the root of Debian 12's hierarchy has, as far as Sluice reads or writes it.
void fill_group(const std::string& folder) {
  for (const char* file :
       {"cgroup.procs", "cgroup.subtree_control", "cpu.max", "cpu.max.burst", "cpu.weight",
        "cpuset.cpus", "memory.max", "memory.swap.max", "memory.oom.group"})
    std::ofstream(folder + "/" + file);
  std::ofstream(folder + "/cgroup.type") << "domain\n";
  std::ofstream(folder + "/cgroup.controllers") << "cpuset cpu io memory pids\n";
  std::ofstream(folder + "/cpu.stat") << "usage_usec 2500\nuser_usec 2000\nsystem_usec 500\n";
  std::ofstream(folder + "/memory.events") << "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n";
}

}  // namespace

extern "C" int mkdir(const char* path, mode_t mode) {
  const long made = syscall(SYS_mkdirat, AT_FDCWD, path, mode);
  if (made == 0 && is_recorded(path)) fill_group(path);
  return static_cast<int>(made);
}

extern "C" int rmdir(const char* path) {
  if (is_recorded(path))
    for (const auto& entry : fs::directory_iterator(path))
      if (!entry.is_directory()) unlink(entry.path().c_str());
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

namespace sluice::node {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RecordedV2 : public testing::Test {
 protected:
  RecordedV2() {
    fs::create_directories(folder_.path + "/proc");
    fs::create_directories(base_);
    fill_group(base_);
    write(folder_.path + "/proc/mountinfo",
          "30 23 0:26 / " + folder_.path +
              "/cg rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
    write(folder_.path + "/proc/cgroup", "0::/system.slice/sluice.service\n");
    recorded = folder_.path + "/cg";
  }
  ~RecordedV2() override { recorded.clear(); }

  static void write(const std::string& file, const std::string& text) {
    std::ofstream(file) << text;
  }
  std::string text(const std::string& file) const {
    std::stringstream all;
    all << std::ifstream(base_ + "/" + file).rdbuf();
    return all.str();
  }
  Cgroups detect() const { return Cgroups::detect("sluice", folder_.path + "/proc"); }

  const TemporaryFolder folder_;
  const std::string base_ = folder_.path + "/cg/system.slice/sluice.service";
};

TEST_F(RecordedV2, IsFoundBelowTheProcessesOwnGroup) {
  const Cgroups cgroups = detect();
  EXPECT_TRUE(cgroups.writable()) << cgroups.describe();
  EXPECT_TRUE(cgroups.limits_memory());
  EXPECT_THAT(cgroups.describe(), HasSubstr("cgroup v2: CPU quota as backstop"));
}

TEST_F(RecordedV2, TakesQuotaWeightCoresAndMemory) {
  const Cgroups cgroups = detect();
  Result<Cgroup> group = cgroups.open("cpu0/one");
  ASSERT_TRUE(group.ok()) << group.error().message;
  EXPECT_TRUE(group->set_quota(480, Millis(500)).ok());
  EXPECT_TRUE(group->set_weight(32).ok());
  EXPECT_TRUE(group->set_cores({0, 2}).ok());
  EXPECT_TRUE(group->set_memory(Bytes{64} << 20).ok());
  const std::string one = "sluice/cpu0/one/";
  EXPECT_EQ(text(one + "cpu.max"), "240000 500000");
  EXPECT_EQ(text(one + "cpu.max.burst"), "240000");
  EXPECT_EQ(text(one + "cpu.weight"), "3200");
  EXPECT_EQ(text(one + "cpuset.cpus"), "0,2");
  EXPECT_EQ(text(one + "memory.max"), "67108864");
  EXPECT_EQ(text(one + "memory.swap.max"), "0");
  EXPECT_EQ(text(one + "memory.oom.group"), "1");
  EXPECT_TRUE(group->set_quota(0, Millis(500)).ok());
  EXPECT_EQ(text(one + "cpu.max"), "max 500000");
  EXPECT_EQ(group->usage_file(), base_ + "/" + one + "cpu.stat");
}

// A group that passes controllers on has no processes of its own (the kernel's rule).
TEST_F(RecordedV2, MovesItsProcessesIntoALeafBeforeItPassesControllersOn) {
  write(base_ + "/cgroup.procs", "41\n42\n");
  const Cgroups cgroups = detect();
  EXPECT_EQ(text("host/cgroup.procs"), "42") << "the last of those that were moved";
}

TEST_F(RecordedV2, CountsAKillAtItsOwnLimitAlone) {
  const Cgroups cgroups = detect();
  const Result<Cgroup> group = cgroups.open("one");
  ASSERT_TRUE(group.ok());
  const std::string events = base_ + "/sluice/one/memory.events";
  EXPECT_FALSE(group->killed_by_memory_limit());
  write(events, "low 0\nhigh 0\nmax 3\noom 0\noom_kill 1\n");  // the machine had no memory
  EXPECT_FALSE(group->killed_by_memory_limit());
  write(events, "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\n");
  EXPECT_TRUE(group->killed_by_memory_limit());
}

// The kernel opens a file of a group that is being removed, and then refuses to read it (ENODEV).
TEST_F(RecordedV2, AGroupThatEndsWhileItIsReadHasNoProcesses) {
  const Cgroups cgroups = detect();
  Result<Cgroup> group = cgroups.open("one");
  ASSERT_TRUE(group.ok() && group->add(77).ok());
  for (const char* file : {"cgroup.procs", "memory.events", "cpu.max"}) {
    fs::remove(base_ + "/sluice/one/" + file);
    fs::create_directory(base_ + "/sluice/one/" + file);  // opened, and not read either
  }
  EXPECT_THAT(group->processes(), ElementsAre());
  EXPECT_THAT(cgroups.populated(), ElementsAre());
  EXPECT_FALSE(group->killed_by_memory_limit());
  EXPECT_FALSE(group->set_quota(480, Millis(500)).ok());
}

TEST_F(RecordedV2, KnowsWhatRunsAndRemovesWhatIsEmpty) {
  const Cgroups cgroups = detect();
  Result<Cgroup> one = cgroups.open("cpu0/one"), two = cgroups.open("cpu0/two");
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_TRUE(one->add(77).ok());
  EXPECT_THAT(cgroups.populated(), ElementsAre(testing::Pair("cpu0/one", ElementsAre(77))));
  EXPECT_TRUE(two->remove().ok());
  EXPECT_FALSE(fs::exists(base_ + "/sluice/cpu0/two"));
  EXPECT_TRUE(fs::exists(base_ + "/sluice/cpu0/one"));
}

}  // namespace
}  // namespace sluice::node
