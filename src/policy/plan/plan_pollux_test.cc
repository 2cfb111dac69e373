// plan_pollux: shares of devices, doubled workers, the cost of a restart.
#include "policy/plan/plan_pollux.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/deal_table.h"
#include "tests/support/job_cluster.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

std::vector<int> workers_of(const Dealt& dealt) {
  std::vector<int> workers;
  for (const Placed& p : dealt) workers.push_back(workers_in(p));
  return workers;
}

TEST(Pollux, AJobMayHaveTwiceWhatItHadAtMost) {
  DealTable t({8});
  t.job("a", {.step = step_linear()});
  for (const int expected : {1, 2, 4, 8, 8}) {
    const Dealt dealt = pollux(t.table, {});
    EXPECT_THAT(workers_of(dealt), ElementsAre(expected));
    t.table.jobs[0].now = dealt[0];
    t.table.jobs[0].most_had = expected;
    t.table.jobs[0].age += Seconds(600);
  }
}

TEST(Pollux, TheFirstDealIsTheLeast) {
  DealTable t({8});
  t.job("a", {.least = 3, .step = step_linear()});
  EXPECT_THAT(workers_of(pollux(t.table, {})), ElementsAre(3));
}

TEST(Pollux, EqualJobsShareEquallyEachOnItsNode) {
  DealTable t({4, 4});
  for (const char* name : {"a", "b"}) t.job(name, {.step = step_within_a_node()}).most_had = 8;
  const Dealt dealt = pollux(t.table, {});
  ASSERT_THAT(dealt, SizeIs(2));
  EXPECT_THAT(dealt[0], ElementsAre(Pair(dealt[0][0].first, 4)));
  EXPECT_THAT(dealt[1], ElementsAre(Pair(1 - dealt[0][0].first, 4)));
}

TEST(Pollux, AJobGrowsIfThatIsWorthARestart) {
  DealTable t({3});
  t.job("a", {.step = step_linear(), .now = {{0, 2}}});
  t.table.jobs[0].age = Seconds(40);
  EXPECT_THAT(workers_of(pollux(t.table, {})), ElementsAre(2)) << "3/2 × 40/70 is less than 1";
  t.table.jobs[0].age = Seconds(100);
  EXPECT_THAT(workers_of(pollux(t.table, {})), ElementsAre(3)) << "3/2 × 100/130 is more";
}

TEST(Pollux, AJobThatHasChangedOftenChangesLess) {
  DealTable t({4});
  t.job("a", {.step = step_linear()}).age = Seconds(290);
  const auto deal = [&](const Placed& now) {
    t.table.jobs[0].now = now;
    t.table.jobs[0].most_had = std::max(workers_in(now), 1);
    return workers_in(pollux(t.table, {})[0]);
  };
  EXPECT_EQ(deal({}), 2);
  EXPECT_EQ(deal({{0, 2}}), 4);
  EXPECT_EQ(deal({{0, 3}}), 4) << "one restart so far: 4/3 × 260/320";
  EXPECT_EQ(deal({{0, 3}}), 3) << "two: 4/3 × 230/320";
}

TEST(Pollux, WithoutDevicesOrJobsNothingIsDealt) {
  DealTable t({0, 0});
  EXPECT_THAT(pollux(t.table, {}), IsEmpty());
  t.job("a", {});
  EXPECT_THAT(pollux(t.table, {}), ElementsAre(IsEmpty()));
}

TEST(Pollux, EqualSeedsAndMemoriesGiveEqualDeals) {
  const auto deals = [](uint64_t seed) {
    DealTable t({4, 4, 4}, seed);
    for (const char* name : {"a", "b", "c", "d"})
      t.job(name, {.step = step_within_a_node(), .batch = {.least = 64, .most = 512}}).most_had = 4;
    std::vector<Dealt> dealt;
    for (int round = 0; round < 3; ++round) dealt.push_back(pollux(t.table, {.generations = 20}));
    return std::pair(dealt, t.memory);
  };
  EXPECT_EQ(deals(1), deals(1));
}

// What it remembers is at least as good as the present allocation, which is nothing here.
TEST(Pollux, ASearchBeginsWithWhatTheLastOneEndedWith) {
  DealTable t({4, 4, 4, 4});
  for (const char* name : {"a", "b", "c", "d"})
    t.job(name, {.step = step_within_a_node()}).most_had = 16;
  const PolluxSettings hardly{.generations = 1, .population = 2};
  const auto devices = [&](const PolluxSettings& s) {
    int sum = 0;
    for (const int workers : workers_of(pollux(t.table, s))) sum += workers;
    return sum;
  };
  EXPECT_LT(devices(hardly), 16);
  t.memory = {};
  EXPECT_EQ(devices({}), 16);
  EXPECT_EQ(devices(hardly), 16);
}

TEST(Pollux, NeverMoreThanTheDevices) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    DealTable t({4, 1, 0, 8}, seed);
    for (uint64_t j = 0; j < 1 + seed % 7; ++j) {
      const int least = 1 + static_cast<int>(random.below(4));
      t.job(std::to_string(j), {.least = least, .step = step_within_a_node()}).most_had = 8;
    }
    const Dealt dealt = pollux(t.table, {.generations = 10, .population = 20});
    std::vector<int> used(4), spanning(4);
    for (const Placed& p : dealt)
      for (const auto& [node, workers] : p) {
        used[node] += workers;
        spanning[node] += p.size() > 1;
      }
    for (size_t n = 0; n < 4; ++n) {
      EXPECT_LE(used[n], t.table.devices[n]);
      EXPECT_LE(spanning[n], 1);
    }
  }
}

TEST(Pollux, ThePlanDoublesInEachRound) {
  JobCluster c(4);
  c.plan = "pollux";
  c.job("a");
  c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(1));
  c.tick(Seconds(30));
  EXPECT_THAT(c.instances("a"), SizeIs(1)) << "a round lasts a minute";
  c.tick(Seconds(600));
  EXPECT_THAT(c.instances("a"), SizeIs(2));
  c.tick(Seconds(600));
  EXPECT_THAT(c.instances("a"), SizeIs(4));
}

TEST(Pollux, EveryJobBeginsAnewInEachRoundIfThatIsSet) {
  JobCluster c(1);
  c.plan = "pollux";
  c.job("a").spec.policy_settings = {{"restart_all", "true"}};
  c.tick();
  EXPECT_EQ(c.workers("a"), "d0");
  EXPECT_THAT(c.tick(Seconds(30)), IsEmpty());
  c.tick(Seconds(30));
  EXPECT_EQ(c.workers("a"), "");
  c.tick();
  EXPECT_EQ(c.workers("a"), "d0");
}

}  // namespace
}  // namespace sluice::policy
