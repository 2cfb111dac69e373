// plan_elasticflow: powers of two of devices, by what they add to throughput.
#include "policy/plan/plan_elasticflow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/deal_table.h"
#include "tests/support/job_cluster.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

TEST(ElasticFlow, JobsHavePowersOfTwo) {
  DealTable t({8});
  t.job("a", {.most = 7, .step = step_linear()});
  EXPECT_THAT(elasticflow(t.table), ElementsAre(4));
  DealTable u({8});
  u.job("a", {.least = 3, .most = 3, .step = step_linear()});
  u.job("b", {.least = 3, .step = step_linear()});
  EXPECT_THAT(elasticflow(u.table), ElementsAre(3, 4)) << "3 where no power of two is allowed";
}

TEST(ElasticFlow, AdmitsWhatFitsBesideTheJobsThatRun) {
  DealTable t({4});
  t.job("new", {.least = 4, .step = step_linear()});
  t.job("runs", {.least = 2, .step = step_best_alone(), .now = {{0, 4}}});
  t.job("small", {.step = step_best_alone()});
  EXPECT_THAT(elasticflow(t.table), ElementsAre(0, 2, 1)) << "the running one keeps its least";
}

TEST(ElasticFlow, DevicesGoWhereTheyAddMostThroughput) {
  DealTable t({8});
  t.job("saturates", {.step = step_best_alone()});
  t.job("linear", {.step = step_linear()});
  t.job("unknown", {});
  EXPECT_THAT(elasticflow(t.table), ElementsAre(1, 4, 2)) << "the unmeasured one has the rest";
  DealTable equal({8});
  for (const char* name : {"a", "b", "c", "d"}) equal.job(name, {.step = step_linear()});
  EXPECT_THAT(elasticflow(equal.table), ElementsAre(2, 2, 2, 2));
}

// Returns the sum of the jobs' throughputs, each ÷ that of one device, as a part of the largest one
// of all choices of levels for three jobs on eight devices.
double part_of_best(const Table& table, const std::vector<int>& chosen) {
  const auto sum = [&](const std::vector<int>& workers) {
    double s = 0;
    for (size_t j = 0; j < workers.size(); ++j)
      s += table.jobs[j].throughput(workers[j], 1) / table.jobs[j].throughput(1, 1);
    return s;
  };
  double best = 0;
  for (const int a : {1, 2, 4, 8})
    for (const int b : {1, 2, 4, 8})
      for (const int c : {1, 2, 4, 8})
        if (a + b + c <= 8) best = std::max(best, sum({a, b, c}));
  return sum(chosen) / best;
}

TEST(ElasticFlow, IsCloseToTheBestOfAllChoices) {
  int equal = 0;
  double worst = 1;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    DealTable t({8});
    for (const char* name : {"a", "b", "c"})
      t.job(name, {.step = StepModel{.alpha_c = 0.05 * random.uniform(),
                                     .beta_c = 0.01 * random.uniform(),
                                     .alpha_r = 0.1 * random.uniform(),
                                     .beta_r = 0.02 * random.uniform(),
                                     .gamma = 1 + 2 * random.uniform()}});
    const double part = part_of_best(t.table, elasticflow(t.table));
    worst = std::min(worst, part);
    equal += part > 1 - 1e-9;
  }
  EXPECT_GE(equal, 160) << "of 200";
  EXPECT_GE(worst, 0.8);
}

TEST(ElasticFlow, ThePlanDealsEachRound) {
  JobCluster c(4);
  c.plan = "elasticflow";
  c.job("a");
  c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(4));
  c.job("b");
  c.tick(Seconds(30));
  EXPECT_EQ(c.workers("b"), "");
  c.tick(Seconds(30)), c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(2));
  EXPECT_THAT(c.instances("b"), SizeIs(2));
}

}  // namespace
}  // namespace sluice::policy
