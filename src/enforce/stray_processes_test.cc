#include "enforce/stray_processes.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/burner.h"

namespace sluice::node {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Strays : testing::Test {
  void SetUp() override {
    if (!cgroups.writable()) GTEST_SKIP() << cgroups.describe();
    group = *cgroups.open("cpu0/one");
    elsewhere = *cgroups.open("elsewhere");
    ASSERT_TRUE(group.add(burner.pid()).ok());
  }
  void TearDown() override {
    burner.end();
    for (const char* path : {"cpu0/one", "cpu0", "elsewhere", ""})
      if (Result<Cgroup> left = cgroups.open(path); left.ok()) (void)left->remove();
  }
  std::vector<ProcessIdentity> poll(const std::vector<pid_t>& family = {}) {
    return strays.poll(group, family);
  }
  // Returns a child that takes some memory and exits, once it is in the group.
  pid_t child_that_exits() {
    int ends[2];
    SLUICE_CHECK(pipe2(ends, O_CLOEXEC) == 0, "pipe2");
    Fd ours(ends[1]);
    const Fd theirs(ends[0]);
    const pid_t pid = fork();
    if (pid != 0) {
      EXPECT_TRUE(group.add(pid).ok());
      return pid;
    }
    ours.reset();
    char none = 0;
    const bool began = read(theirs.get(), &none, 1) == 0;  // our parent has closed its end
    constexpr size_t kBytes = 64 << 20;
    mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1,
         0);
    _exit(began ? 0 : 1);
  }
  Cgroups cgroups = Cgroups::detect("sluice-test-strays-" + std::to_string(getpid()));
  Cgroup group, elsewhere;
  Burner burner;
  StrayProcesses strays;
};

TEST_F(Strays, AProcessThatLeavesItsGroupIsFoundOnceAndItsUseCounted) {
  EXPECT_THAT(poll(), IsEmpty());
  ASSERT_TRUE(elsewhere.add(burner.pid()).ok());
  EXPECT_THAT(poll(), ElementsAre(*identity_of(burner.pid())));
  EXPECT_THAT(poll(), IsEmpty());
  EXPECT_EQ(strays.outside().size(), 1u);
  burner.burn(Millis(30));
  EXPECT_GE(strays.used(), Millis(20));
}

TEST_F(Strays, OneThatComesBackOrEndsIsNoneAnyMore) {
  ASSERT_TRUE(elsewhere.add(burner.pid()).ok());
  EXPECT_EQ(poll({burner.pid()}).size(), 1u) << "known by its family alone";
  ASSERT_TRUE(group.add(burner.pid()).ok());
  EXPECT_THAT(poll(), IsEmpty());
  EXPECT_THAT(strays.outside(), IsEmpty());
  ASSERT_TRUE(elsewhere.add(burner.pid()).ok());
  EXPECT_EQ(poll().size(), 1u);
  burner.end();
  EXPECT_THAT(poll(), IsEmpty());
  EXPECT_THAT(strays.outside(), IsEmpty());
}

// A program that a shell script starts has children that exit all the time. The kernel takes a
// while to free the memory of each, and reports no group for it meanwhile.
TEST_F(Strays, AnExitingProcessHasNotLeft) {
  for (int round = 0; round < 5; ++round) {
    const pid_t child = child_that_exits();
    int status = -1;
    while (waitpid(child, &status, WNOHANG) == 0) EXPECT_THAT(poll(), IsEmpty());
    EXPECT_EQ(status, 0);
  }
}

// A container's runtime makes groups below the program's own; the kernel holds those too.
TEST_F(Strays, AGroupBelowTheSlicesIsInside) {
  Result<Cgroup> below = cgroups.open("cpu0/one/below");
  ASSERT_TRUE(below.ok());
  ASSERT_TRUE(below->add(burner.pid()).ok());
  EXPECT_THAT(poll({burner.pid()}), IsEmpty());
  burner.end();
  EXPECT_TRUE(below->remove().ok());
}

}  // namespace
}  // namespace sluice::node
