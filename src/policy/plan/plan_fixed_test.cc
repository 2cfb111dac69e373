// plan_fixed: whole devices, in order, without preemption.
#include "policy/plan/plan_fixed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/job_cluster.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

JobCluster cluster(const std::string& bundle, int devices) {
  JobCluster c(devices);
  c.bundle = bundle;
  return c;
}

TEST(Fifo, WholeIdleDevicesAsManyAsTheJobAsksFor) {
  JobCluster c = cluster("fifo", 4);
  c.job("a", {.least = 1, .most = 2});
  c.job("b", {.least = 1});
  c.used("d0", 0);
  c.tick();
  EXPECT_EQ(c.workers("a"), "d1 d2");
  EXPECT_EQ(c.workers("b"), "d3");
  for (const Instance* i : c.instances("a")) EXPECT_EQ(i->slice(), slice(1000, 1000));
  for (int i = 0; i < 20; ++i) EXPECT_THAT(c.tick(), IsEmpty());
}

TEST(Fifo, TheFirstThatWaitsHoldsUpTheOthers) {
  JobCluster c = cluster("fifo", 3);
  c.job("a", {.least = 2, .most = 2});
  c.job("b", {.least = 2, .most = 2});
  c.job("c", {.least = 1, .most = 1});
  std::vector<Action> actions = c.tick();
  EXPECT_EQ(c.workers("a"), "d0 d1");
  EXPECT_EQ(c.workers("c"), "") << "though d2 is idle";
  EXPECT_EQ(c.why("b", actions),
            "job-waits: The job needs 2 whole devices, 2 of them still; 1 is idle.");
  EXPECT_EQ(c.why("c", actions), "job-behind: Job b comes first, and waits for devices.");
  c.state("a").phase = JobPhase::kFinished;
  c.tick(), c.tick();
  EXPECT_EQ(c.workers("b"), "d0 d1");
  EXPECT_EQ(c.workers("c"), "d2");
}

TEST(Fifo, ARunningJobsLostWorkerIsReplacedFirst) {
  JobCluster c = cluster("fifo", 3);
  c.job("a", {.least = 2, .most = 2});
  c.job("b", {.least = 2, .most = 2});
  c.tick();
  c.device("d0").drained = true;
  c.tick();
  EXPECT_EQ(c.workers("a"), "d1 d2");
  EXPECT_EQ(c.workers("b"), "");
}

TEST(Sjf, TheShortestFirst) {
  JobCluster c = cluster("sjf", 1);
  for (const char* name : {"a", "b", "c"}) c.job(name, {.most = 1});
  std::get<TrainingSpec>(c.view("a").spec.kind).epochs = 30;
  std::get<TrainingSpec>(c.view("b").spec.kind).epochs = 20;
  for (const char* shortest : {"c", "b", "a"}) {
    c.tick(), c.tick();
    EXPECT_EQ(c.workers(shortest), "d0") << shortest;
    c.state(shortest).phase = JobPhase::kFinished;
  }
}

TEST(Sjf, MeasuredLengthsCountInSeconds) {
  JobCluster c = cluster("sjf", 1);
  for (const char* name : {"a", "b"}) {
    c.job(name, {.most = 1});
    c.state(name).step = StepModel{.alpha_c = 0.1};
    c.state(name).batch = 10;
  }
  c.state("a").samples = 2000;
  c.state("b").samples = 1000;
  c.tick();
  EXPECT_EQ(c.workers("b"), "d0");
}

TEST(Sjf, ARunningJobIsNotInterrupted) {
  JobCluster c = cluster("sjf", 1);
  c.job("long", {.most = 1});
  c.tick();
  std::get<TrainingSpec>(c.job("short", {.most = 1}).spec.kind).epochs = 1;
  c.tick(), c.tick();
  EXPECT_EQ(c.workers("long"), "d0");
  EXPECT_EQ(c.workers("short"), "");
}

TEST(Fixed, InferenceGoesOnBesideWholeDevices) {
  JobCluster c = cluster("fifo", 2);
  c.job("j", {.most = 1});
  c.tick();
  c.function("a", Millis(100), Millis(10));
  c.rate("a", 30);
  c.tick();
  EXPECT_EQ(c.instances("a").at(0)->device(), "d1");
  EXPECT_EQ(c.workers("j"), "d0");
}

}  // namespace
}  // namespace sluice::policy
