#include "node/stray_processes.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "node/burner_for_test.h"

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
  Cgroups cgroups = Cgroups::detect("sluice-test-strays-" + std::to_string(getpid()));
  Cgroup group, elsewhere;
  BurnerForTest burner;
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
