// plan_tiresias: what has had least goes first, in two queues.
#include "policy/plan/plan_tiresias.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/deal_table.h"
#include "tests/support/job_cluster.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;

constexpr TiresiasSettings kAfterAHundred{.threshold = Seconds(100)};

TEST(Tiresias, AJobHasWhatItAsksForOrNothingInOrderOfSubmission) {
  DealTable t({2, 2});
  t.job("a", {.least = 1, .most = 2});
  t.job("b", {.least = 3});
  t.job("c", {.least = 1});
  t.job("d", {.least = 1, .most = 2});
  EXPECT_THAT(tiresias(t.table, {}), ElementsAre(2, 0, 1, 0)) << "b and d do not fit";
}

TEST(Tiresias, AJobThatHasHadTheThresholdGivesItsDevicesToOneThatHasNot) {
  DealTable t({2});
  t.job("a", {.most = 2, .now = {{0, 2}}}).attained = 99;
  t.job("b", {.most = 2});
  EXPECT_THAT(tiresias(t.table, kAfterAHundred), ElementsAre(2, 0));
  t.table.jobs[0].attained = 100;
  EXPECT_THAT(tiresias(t.table, kAfterAHundred), ElementsAre(0, 2));
}

TEST(Tiresias, TheSecondQueueIsInTheOrderOfItsArrivals) {
  DealTable t({1});
  t.job("a", {.most = 1});
  t.job("b", {.most = 1}).attained = 100;
  EXPECT_THAT(tiresias(t.table, kAfterAHundred), ElementsAre(1, 0));
  t.table.now += Seconds(60);
  t.table.jobs[0].attained = 100;
  EXPECT_THAT(tiresias(t.table, kAfterAHundred), ElementsAre(0, 1)) << "b was there first";
  t.table.now += Seconds(60);
  t.table.jobs[1].attained = 1000;
  EXPECT_THAT(tiresias(t.table, kAfterAHundred), ElementsAre(0, 1)) << "and is served to its end";
}

TEST(Tiresias, AJobThatHasWaitedLongBeginsAnewIfThatIsSet) {
  DealTable t({1});
  t.job("a", {.most = 1, .now = {{0, 1}}});
  t.job("b", {.most = 1}).attained = 100;  // it ran as many seconds
  Contender &a = t.table.jobs[0], &b = t.table.jobs[1];
  const auto deal = [&](double promote) {
    TiresiasSettings s = kAfterAHundred;
    s.promote = promote;
    t.table.now += Seconds(60);
    return tiresias(t.table, s);
  };
  EXPECT_THAT(deal(2), ElementsAre(1, 0));
  b.waited = Seconds(199);
  EXPECT_THAT(deal(2), ElementsAre(1, 0));
  a.attained = 100;
  b.waited = Seconds(200);
  EXPECT_THAT(deal(2), ElementsAre(0, 1)) << "b is in the first queue again, a in the second";
  b.attained = 199;
  EXPECT_THAT(deal(2), ElementsAre(0, 1));
  b.attained = 200;
  EXPECT_THAT(deal(2), ElementsAre(1, 0)) << "it has had the threshold once more";
}

TEST(Tiresias, ThePlanPreempts) {
  JobCluster c(2);
  c.plan = "tiresias";
  c.job("a", {.most = 2}).spec.policy_settings = {{"threshold", "100s"}};
  c.tick(), c.tick();
  EXPECT_EQ(c.workers("a"), "d0 d1");
  c.job("b", {.most = 2});
  c.tick(Seconds(50));
  EXPECT_EQ(c.workers("a"), "d0 d1") << "it has had 2 × 50 s; the next round comes after 60";
  c.tick(Seconds(10)), c.tick();
  EXPECT_EQ(c.workers("a"), "");
  EXPECT_EQ(c.workers("b"), "d0 d1");
}

}  // namespace
}  // namespace sluice::policy
