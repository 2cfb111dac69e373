// plan_optimus: each device where it saves most time.
#include "policy/plan/plan_optimus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/deal_table.h"
#include "tests/support/job_cluster.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Optimus, EveryJobHasItsLeastBeforeAnyHasMore) {
  DealTable t({2, 2});
  t.job("a", {.step = step_linear(), .samples = 1'000'000});
  t.job("b", {.least = 2, .step = step_linear()});
  t.job("c", {.least = 2, .step = step_linear()});
  t.job("d", {.step = step_linear()});
  EXPECT_THAT(optimus(t.table), ElementsAre(1, 2, 0, 1)) << "c does not fit, d does";
}

// Of 10 s of work the second worker saves 5, the third 1.6 (of 64 samples one worker has 22), the
// fourth 0.9.
TEST(Optimus, ADeviceGoesWhereItSavesMostTime) {
  DealTable t({4});
  t.job("long", {.step = step_linear(), .samples = 10'000});
  t.job("short", {.step = step_linear(), .samples = 2'000});
  EXPECT_THAT(optimus(t.table), ElementsAre(3, 1)) << "1.6 s of the long, 1 s of the short";
  t.table.devices = {6};
  EXPECT_THAT(optimus(t.table), ElementsAre(4, 2)) << "then 1 s of the short, 0.9 s of the long";
}

TEST(Optimus, NoDeviceThatSavesNothingOrIsBeyondTheJobsMost) {
  DealTable t({8});
  t.job("saturates", {.step = step_best_alone()});
  t.job("bounded", {.most = 3, .step = step_linear()});
  EXPECT_THAT(optimus(t.table), ElementsAre(1, 3));
}

TEST(Optimus, ThePlanDealsEachIntervalAndPacks) {
  JobCluster c(8);
  for (int d = 0; d < 8; ++d) c.now.devices[d].node = d < 4 ? "n0" : "n1";
  c.plan = "optimus";
  c.job("a", {.most = 4});
  c.job("b", {.most = 4});
  c.tick();
  EXPECT_EQ(c.workers("a"), "d0 d1 d2 d3");
  EXPECT_EQ(c.workers("b"), "d4 d5 d6 d7");
  for (int i = 0; i < 20; ++i) EXPECT_THAT(c.tick(), IsEmpty());
  c.job("late");
  EXPECT_EQ(c.why("late", c.tick(Seconds(100))), "job-waits: optimus: no device in this round.");
  c.tick(Seconds(600)), c.tick(Seconds(600));
  EXPECT_NE(c.workers("late"), "");
}

}  // namespace
}  // namespace sluice::policy
