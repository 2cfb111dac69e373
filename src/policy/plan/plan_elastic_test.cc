// plan_elastic: jobs on what inference leaves, by goodput.
#include "policy/plan/plan_elastic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "policy/plan/jobs.h"
#include "tests/support/job_cluster.h"

namespace sluice::policy {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A model of which more than a few workers bring little.
StepModel saturating() {
  return {.alpha_c = 0.05, .beta_c = 0.001, .alpha_r = 0.05, .beta_r = 0.05, .gamma = 1};
}

TEST(Elastic, AJobHasAllIdleDevicesWithAFloorAndTheWholeAsItsLimit) {
  JobCluster c(3);
  c.job("j");
  c.tick();
  EXPECT_EQ(c.workers("j"), "d0 d1 d2");
  for (const Instance* i : c.instances("j")) {
    EXPECT_EQ(i->slice(), (Slice{kWhole, {{50}, kWhole}, 0}));
    EXPECT_EQ(i->position(), (Position{kNone, {950}})) << "late in the window";
  }
  EXPECT_THAT(c.rules("j"), Each("job-starts"));
  for (int i = 0; i < 50; ++i) EXPECT_THAT(c.tick(), IsEmpty());
}

TEST(Elastic, JobsHaveTheirBounds) {
  JobCluster c(6);
  c.job("a", {.least = 2, .most = 3});
  c.job("b", {.least = 7});
  const std::vector<Action> actions = c.tick();
  EXPECT_EQ(c.workers("a"), "d0 d1 d2");
  EXPECT_EQ(c.workers("b"), "");
  EXPECT_THAT(c.rules("b"), ElementsAre("job-waits"));
  EXPECT_EQ(c.why("b", actions),
            "job-waits: The job needs 7 workers to begin, each on a device of its own: of 6 "
            "devices 6 have no time or memory left for it, or a job that goes before.");
}

TEST(Elastic, AJobOfAnUnknownModelIsMeasuredOnTwoWorkersAndThenGrowsAtOnce) {
  JobCluster c(4);
  c.job("j").job->measures_first = true;
  const auto first = c.tick();
  EXPECT_EQ(c.workers("j").size(), std::string("d0 d1").size());
  EXPECT_THAT(c.why("j", first), HasSubstr("Its steps are measured on 2 workers first."));
  for (int i = 0; i < 50; ++i) EXPECT_THAT(c.tick(), IsEmpty());
  c.state("j").measures_first = false;
  c.state("j").step = StepModel{.alpha_c = 0.01, .beta_c = 0.01};
  c.state("j").batch = 64;
  c.tick();
  EXPECT_EQ(c.workers("j"), "d0 d1 d2 d3");
}

TEST(Elastic, AJobThatIsMeasuredFirstHasItsLeastAndKeepsWhatItHas) {
  JobCluster c(4);
  c.job("j", {.least = 3}).job->measures_first = true;
  EXPECT_THAT(c.why("j", c.tick()), HasSubstr("Its steps are measured on 3 workers first."));
  EXPECT_THAT(c.instances("j"), SizeIs(3));
  // As after the death of a control process, which alone knew its steps.
  JobCluster again(4);
  again.job("j");
  again.tick();
  again.state("j").measures_first = true;
  for (int i = 0; i < 50; ++i) again.tick();
  EXPECT_EQ(again.workers("j"), "d0 d1 d2 d3");
}

TEST(Elastic, EqualJobsShareEqually) {
  JobCluster c(6);
  for (const char* name : {"a", "b", "c"}) c.job(name);
  c.tick();
  for (const char* name : {"a", "b", "c"}) EXPECT_THAT(c.instances(name), SizeIs(2)) << name;
}

TEST(Elastic, ADeviceGoesWhereItBringsMost) {
  JobCluster c(6);
  c.job("linear");
  c.job("saturates").spec.kind = TrainingSpec{.min_workers = 1, .batch = {.least = 64, .most = 64}};
  c.state("saturates").step = saturating();
  c.tick();
  EXPECT_GT(c.instances("linear").size(), c.instances("saturates").size());
  EXPECT_THAT(c.instances("saturates"), Each(testing::NotNull()));
}

TEST(Elastic, NoWorkerWhoseGainIsSmall) {
  JobCluster c(8);
  c.job("j").spec.kind = TrainingSpec{.min_workers = 1, .batch = {.least = 64, .most = 64}};
  c.state("j").step = saturating();
  c.tick();
  EXPECT_LT(c.instances("j").size(), 4u);
  EXPECT_GE(c.instances("j").size(), 1u);
}

TEST(Elastic, ANewJobIsGivenItsLeastByThoseThatHaveMore) {
  JobCluster c(4);
  c.job("a");
  c.tick();
  c.job("b", {.least = 2});
  const std::vector<Action> first = c.tick();
  EXPECT_THAT(c.rules("a"), Each("job-shrinks"));
  c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(2));
  EXPECT_THAT(c.instances("b"), SizeIs(2));
}

TEST(Elastic, ThePriorityComesFirst) {
  JobCluster c(3);
  c.job("a");
  c.tick();
  c.job("b", {.least = 2, .most = 2, .priority = 1});
  for (int i = 0; i < 3; ++i) c.tick();
  EXPECT_THAT(c.instances("b"), SizeIs(2));
  EXPECT_THAT(c.instances("a"), SizeIs(1));
  c.job("c", {.least = 1, .most = 1, .priority = 2});
  for (int i = 0; i < 3; ++i) c.tick();
  EXPECT_THAT(c.instances("c"), SizeIs(1));
  EXPECT_THAT(c.instances("b"), SizeIs(2));
  EXPECT_THAT(c.instances("a"), IsEmpty());
  EXPECT_THAT(c.rules("a"), ElementsAre("job-waits"));
}

TEST(Elastic, JobsShareADeviceIfNoOtherIsIdle) {
  JobCluster c(1);
  c.job("a");
  c.job("b");
  c.tick();
  EXPECT_EQ(c.workers("a"), "d0");
  EXPECT_EQ(c.workers("b"), "d0");
  JobCluster two(2);
  two.job("a", {.most = 1});
  two.job("b", {.most = 1});
  two.tick();
  EXPECT_EQ(two.workers("a"), "d0");
  EXPECT_EQ(two.workers("b"), "d1");
}

TEST(Elastic, TheSlowestDeviceHoldsUpTheJob) {
  JobCluster c(3);
  c.used("d1", 800);
  c.job("j");
  c.tick();
  EXPECT_EQ(c.workers("j"), "d0 d2") << "three workers at 20 % do less than two at 100 %";
}

// Busy below 5 % of a device is noise.
TEST(Elastic, AWorkerMovesFromASlowDeviceOnceItIsCalm) {
  JobCluster c(3);
  c.used("d2", 700);
  c.job("j", {.most = 2});
  c.tick();
  EXPECT_EQ(c.workers("j"), "d0 d1");
  c.used("d1", 700), c.used("d2", 0);
  for (int s = 2; s < 30; s += 2) EXPECT_THAT(c.tick(), IsEmpty()) << s;
  c.tick();
  EXPECT_EQ(c.workers("j"), "d0 d2");
  EXPECT_THAT(c.rules("j"), Each("job-moves"));
}

TEST(Elastic, AVerySlowWorkerLeavesInAWhile) {
  JobCluster c(2);
  c.job("j");
  c.tick();
  c.used("d1", 950);
  for (int i = 0; i < 10; ++i) EXPECT_THAT(c.tick(), IsEmpty());
  for (int i = 0; i < 8; ++i) c.tick();
  EXPECT_EQ(c.workers("j"), "d0");
  for (int i = 0; i < 30; ++i) EXPECT_THAT(c.tick(), IsEmpty());
}

TEST(Elastic, JobsGrowWhenADeviceIsIdleAgain) {
  JobCluster c(3);
  c.job("a", {.most = 1});
  c.job("b");
  c.tick();
  EXPECT_EQ(c.workers("b"), "d1 d2");
  c.state("a").phase = JobPhase::kFinished;
  const std::vector<Action> actions = c.tick(Seconds(60));
  EXPECT_EQ(c.why("a", actions), "job-finished: Every epoch is trained.");
  EXPECT_EQ(c.workers("b"), "d0 d1 d2") << "beside the one that leaves";
  EXPECT_EQ(c.why("b", actions),
            "job-grows: 3 workers have 3.0 times the goodput of one, at 100 % of a free device's "
            "speed. d0 is idle for 100 % of its time.");
}

TEST(Elastic, JobsThatWantNoWorkersHaveNone) {
  for (const JobPhase phase : {JobPhase::kPaused, JobPhase::kFinished, JobPhase::kFailed}) {
    JobCluster c(2);
    c.job("j");
    c.tick();
    c.state("j").phase = phase;
    EXPECT_THAT(only<StopInstance>(c.tick()), SizeIs(2));
    EXPECT_THAT(c.tick(), IsEmpty());
  }
}

TEST(Elastic, OneOfAnOlderRevisionIsReplaced) {
  JobCluster c(1);
  c.job("j");
  c.tick();
  c.view("j").revision = 2;
  c.tick();
  EXPECT_THAT(c.rules("j"), Contains("retired"));
  c.tick(), c.tick();
  ASSERT_THAT(c.instances("j"), SizeIs(1));
  EXPECT_EQ(c.instances("j")[0]->revision, 2);
}

TEST(Elastic, ACordonedDeviceIsLeftAndAJobBelowItsLeastEnds) {
  JobCluster c(3);
  c.job("j", {.least = 2, .most = 2});
  c.tick();
  c.device("d0").drained = true;
  c.tick();
  EXPECT_EQ(c.workers("j"), "d1 d2");
  EXPECT_THAT(c.rules("j"), Contains("drained-device"));
  c.device("d1").drained = true;
  c.tick();
  EXPECT_EQ(c.workers("j"), "");
  EXPECT_THAT(c.rules("j"), Contains("below-least"));
  c.device("d0").drained = false;
  c.tick();
  EXPECT_EQ(c.workers("j"), "d0 d2");
}

TEST(Elastic, AnUnreachableDeviceIsLeftAsItIs) {
  JobCluster c(2);
  c.job("j");
  c.tick();
  c.device("d0").reachable = false;
  c.state("j").phase = JobPhase::kPaused;
  c.tick();
  EXPECT_EQ(c.workers("j"), "d0");
}

TEST(Elastic, MemoryBoundsWorkersToo) {
  JobCluster c(2);
  c.instance("x", "other", "d0", slice(1000, 100, Bytes{600} << 20));
  c.job("j", {.memory = Bytes{500} << 20});
  c.tick();
  EXPECT_EQ(c.workers("j"), "d1");
}

// Inference beside training.
TEST(Elastic, InferenceOfNarrowWidthsStartsBesideWorkers) {
  JobCluster c(2);
  c.job("j");
  c.tick();
  c.function("a", Millis(100), Millis(10));
  c.rate("a", 30);
  c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(1));
  EXPECT_EQ(c.workers("j"), "d0 d1") << "no worker had to leave";
}

TEST(Elastic, WorkersLeaveTheDeviceThatInferenceLacksAndNoOther) {
  JobCluster c(3);
  c.job("j");
  c.tick();
  FunctionSpec& a = c.function("a", Millis(100), Millis(10));
  a.policy = "exclusive";  // takes whole devices that are not used
  const std::vector<Action> actions = c.tick();
  EXPECT_THAT(c.rules("j"), ElementsAre("job-yields"));
  EXPECT_THAT(c.why("j", actions), HasSubstr("Inference needs d0"));
  c.tick();
  ASSERT_THAT(c.instances("a"), SizeIs(1));
  EXPECT_EQ(c.instances("a")[0]->device(), "d0");
  EXPECT_EQ(c.workers("j"), "d1 d2");
}

// Without workers both instances would start elsewhere: it lacks one device all the same.
TEST(Elastic, WorkersLeaveNoMoreDevicesThanInferenceLacks) {
  JobCluster c(3);
  c.job("j", {.most = 2});
  c.tick();
  ASSERT_EQ(c.workers("j"), "d0 d1");
  FunctionSpec& a = c.function("a", Millis(100), Millis(10));
  a.policy = "exclusive";
  a.inference().min_replicas = 2;
  c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(1));
  EXPECT_THAT(c.rules("j"), ElementsAre("job-yields"));
  c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(2));
  EXPECT_EQ(c.workers("j"), "d1");
}

TEST(Elastic, TheWorkerThatIsMissedLeastYields) {
  JobCluster c(3);
  c.job("j", {.least = 2, .most = 2});
  c.job("k", {.most = 1});
  c.tick();
  EXPECT_EQ(c.workers("k"), "d2");
  c.function("a", Millis(100), Millis(10)).policy = "exclusive";
  c.tick();
  EXPECT_EQ(c.workers("j"), "d0 d1") << "j would lose two workers";
  EXPECT_EQ(c.workers("k"), "d0") << "it shares, as no other device is idle";
}

TEST(Elastic, WhatInferenceCannotUseIsNotTaken) {
  JobCluster c(2);
  c.job("j");
  c.tick();
  c.function("a", Millis(5), Millis(10));  // no slice meets its objective
  c.function("b", Millis(100), Millis(10)).memory = Bytes{2} << 30;
  c.rate("a", 10), c.rate("b", 10);
  c.tick();
  EXPECT_THAT(c.rules("b"), Contains("cluster-full"));
  EXPECT_EQ(c.workers("j"), "d0 d1");
}

TEST(Elastic, WorkersLeaveACrowdedDeviceOfAViolatingFunction) {
  JobCluster c(2);
  c.job("j");
  c.tick();
  FunctionSpec& a = c.function("a", Millis(100), Millis(10));
  a.policy = "fixed";
  a.slice = slice(1000, 940);
  c.tick();
  ASSERT_THAT(c.instances("a"), SizeIs(1));
  const std::string device = c.instances("a")[0]->device();
  c.view("a").violating = true;
  c.tick();
  EXPECT_THAT(c.rules("j"), ElementsAre("job-yields"));
  EXPECT_THAT(c.workers("j"), testing::Not(HasSubstr(device)));
}

TEST(Elastic, ADeviceOfAnotherArbiterIsNone) {
  JobCluster c(2);
  c.instance("x", "other", "d0", slice(1000, 100)).arbiter = "window";
  c.job("j");
  c.tick();
  EXPECT_EQ(c.workers("j"), "d1");
}

TEST(Elastic, AWorkerHasTheArbiterThatItsDeviceRuns) {
  JobCluster c(3);
  for (const char* id : {"d1", "d2"}) c.device(id).kind = DeviceKind::kCuda;
  c.instance("x", "other", "d2", slice(1000, 100)).arbiter = "planned";
  c.job("j", {.least = 3, .most = 3});
  c.tick();
  std::map<DeviceId, std::string> arbiters;
  for (const Instance* i : c.instances("j")) arbiters[i->device()] = i->arbiter;
  EXPECT_THAT(arbiters,
              testing::ElementsAre(testing::Pair("d0", "planned"), testing::Pair("d1", "shares"),
                                   testing::Pair("d2", "planned")));
}

TEST(Elastic, EveryBundleMayHaveJobs) {
  for (const Bundle& bundle : bundles()) {
    JobCluster c(2);
    c.bundle = bundle.name;
    c.job("j", {.most = 1});
    c.tick();
    EXPECT_THAT(c.instances("j"), SizeIs(1)) << bundle.name;
  }
}

// fast-gshare decides every ten seconds, the plan more often.
TEST(Elastic, ADeviceThatInferenceNeededStaysFreeForAWhile) {
  JobCluster c(1);
  c.job("j");
  c.tick();
  c.function("a", Millis(100), Millis(10)).policy = "exclusive";
  c.tick();
  EXPECT_THAT(c.rules("j"), Contains("job-yields"));
  c.view("a").due = false;
  for (int i = 0; i < 5; ++i) {
    const std::vector<Action> actions = c.tick();
    EXPECT_EQ(c.workers("j"), "");
    EXPECT_THAT(c.why("j", actions), HasSubstr("of 1 device 1 is needed by inference."));
  }
  c.now.functions.erase(c.now.functions.begin());
  c.tick(Seconds(30));
  EXPECT_EQ(c.workers("j"), "d0") << "inference does not need it any more";
}

TEST(Elastic, AJobMayHaveItsOwnSettings) {
  JobCluster c(1);
  c.job("j").spec.policy_settings = {{"floor", "20%"}, {"ceiling", "60%"}};
  c.tick();
  ASSERT_THAT(c.instances("j"), SizeIs(1));
  EXPECT_EQ(c.instances("j")[0]->slice().quota, (Quota{Share{200}, Share{600}}));
}

// The loop marks each function by itself.
TEST(Elastic, AllJobsOfABundleArePlannedIfOneIsDue) {
  JobCluster c(2);
  c.job("a").due = false;
  c.job("b");
  c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(1));
  EXPECT_THAT(c.instances("b"), SizeIs(1));
  c.view("b").due = false;
  c.device("d0").drained = true;
  EXPECT_THAT(c.tick(), IsEmpty());
}

TEST(Elastic, InferenceDecidesFirst) {
  JobCluster c(2);
  c.job("a", {.most = 1});
  c.function("b", Millis(100), Millis(10)).policy = "exclusive";
  const std::vector<Action> actions = c.tick();
  ASSERT_THAT(actions, SizeIs(2));
  EXPECT_EQ(actions[0].function, fn("b"));
  EXPECT_EQ(c.workers("a"), "d1") << "d0 is planned for inference";
}

TEST(Elastic, SaysWhatItRestsOn) {
  JobCluster c(2);
  c.used("d1", 100);
  c.job("a");
  EXPECT_EQ(c.why("a", c.tick()),
            "job-starts: 2 workers have 1.8 times the goodput of one, at 90 % of a free device's "
            "speed. d0 is idle for 100 % of its time.");
  c.job("b");
  EXPECT_EQ(c.why("a", c.tick()),
            "job-shrinks: On other devices 1 worker has 1.0 times the goodput of one. d1 does more "
            "for another job, or nothing for this one.");
  c.function("i", Millis(100), Millis(10)).policy = "exclusive";
  EXPECT_EQ(c.why("a", c.tick()),
            "job-yields: Inference needs d0; the jobs there lose 1.0 times the goodput of one "
            "worker.");
}

// Random jobs and inference, with a loop that carries all out.
class ElasticProperty : public testing::TestWithParam<uint64_t> {
 protected:
  ElasticProperty() : random(GetParam()), c(static_cast<int>(1 + random.below(8))) {
    for (uint64_t n = 1 + random.below(5); n > 0; --n) add_job("j" + std::to_string(n));
    for (uint64_t n = random.below(4); n > 0; --n) {
      FunctionSpec& f = c.function("f" + std::to_string(n), Millis(100), Millis(10));
      f.policy = random.chance(0.3) ? "exclusive" : "has-gpu";
      f.memory = static_cast<Bytes>(random.below(400)) << 20;
    }
    for (size_t d = 0; d < c.now.devices.size(); ++d)
      c.now.devices[d].node = "n" + std::to_string(d / 2);
  }
  void add_job(const std::string& name) {
    FunctionView& v = c.job(name, {.least = static_cast<int>(1 + random.below(3)),
                                   .most = static_cast<int>(random.below(6)),
                                   .priority = static_cast<int>(random.below(2)),
                                   .memory = static_cast<Bytes>(random.below(500)) << 20});
    if (random.chance(0.5)) return;
    std::get<TrainingSpec>(v.spec.kind).batch = {.least = 32, .most = 1024};
    v.job->noise = random.exponential(500);
    v.job->step = StepModel{random.uniform() / 10,   random.uniform() / 100, random.uniform() / 10,
                            random.uniform() / 50,   random.uniform() / 5,   random.uniform() / 50,
                            1 + 9 * random.uniform()};
  }
  void change() {
    for (FunctionView& f : c.now.functions) {
      f.violating = f.spec.is_inference() && random.chance(0.1);
      if (f.spec.is_inference()) {
        f.forecast = random.chance(0.3) ? 0 : random.exponential(60);
        f.concurrency = random.exponential(1);
      } else if (random.chance(0.1)) {
        f.job->phase = random.chance(0.5) ? JobPhase::kPaused : JobPhase::kRunning;
      }
    }
    auto measured = std::make_shared<MeasuredInstances>();
    for (const Instance& i : c.now.instances)
      if (random.chance(0.7))
        measured->push_back({.instance = i.id, .busy = {static_cast<int>(random.below(1001))}});
    c.now.measured = measured;
    for (Device& d : c.now.devices) d.drained = random.chance(0.05);
  }
  static bool waits(const FunctionName& job, const std::vector<Action>& actions) {
    return std::ranges::any_of(actions, [&](const Action& a) {
      return a.function == job && std::holds_alternative<Unmet>(a.what);
    });
  }
  // What holds after every decision.
  void expect_bounds(const std::vector<Action>& actions) {
    for (const Action& a : actions)
      EXPECT_FALSE(a.reason.rule.empty() || a.reason.text.empty()) << to_string(a.function);
    std::map<DeviceId, int> requests;
    for (const Instance& i : c.now.instances)
      if (!c.now.functions.empty() && i.slice().sm == kWhole)
        requests[i.device()] += i.slice().quota.request.permille;
    for (const auto& [device, sum] : requests) EXPECT_LE(sum, 1000) << device;
    for (const FunctionView& f : c.now.functions) {
      if (f.spec.is_inference()) continue;
      std::set<DeviceId> devices;
      int all = 0, live = 0;
      for (const Instance& i : c.now.instances) {
        if (i.function != f.spec.name) continue;
        devices.insert(i.device());
        ++all;
        live += i.state != InstanceState::kDraining;
      }
      EXPECT_EQ(static_cast<int>(devices.size()), all) << "two workers on a device";
      const int least = std::get<TrainingSpec>(f.spec.kind).min_workers;
      // A job that lost a worker waits for the place of one that leaves, and says so.
      EXPECT_TRUE(live == 0 || live >= least || waits(f.spec.name, actions))
          << to_string(f.spec.name) << " has " << live;
      EXPECT_TRUE(live == 0 || wants_workers(*f.job)) << to_string(f.spec.name);
    }
  }

  Random random;
  JobCluster c;
};

TEST_P(ElasticProperty, KeepsItsBounds) {
  SCOPED_TRACE(GetParam());
  for (int i = 0; i < 40; ++i) {
    change();
    if (random.chance(0.05)) c.memories.clear();
    expect_bounds(c.tick(Seconds(static_cast<int>(1 + random.below(20)))));
    if (testing::Test::HasFailure()) return;
  }
}

TEST_P(ElasticProperty, EqualInputGivesEqualOutput) {
  SCOPED_TRACE(GetParam());
  for (int i = 0; i < 5; ++i) change(), c.tick(Seconds(10));
  change();
  const Memories memories = c.memories;
  const Random drawn = c.random;
  const std::vector<Action> first = c.decide();
  c.memories = memories;
  c.random = drawn;
  EXPECT_EQ(c.decide(), first);
}

TEST_P(ElasticProperty, OnAConstantSnapshotItSettles) {
  SCOPED_TRACE(GetParam());
  for (int i = 0; i < 5; ++i) change(), c.tick(Seconds(10));
  for (FunctionView& f : c.now.functions) f.violating = false;
  c.now.measured = nullptr;
  for (int i = 0; i < 40; ++i) c.tick(Seconds(31));
  for (int i = 0; i < 20; ++i) {
    for (const Action& a : c.tick(Seconds(31)))
      EXPECT_TRUE(std::holds_alternative<Unmet>(a.what))
          << to_string(a.function) << " " << a.reason.rule << ": " << a.reason.text;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ElasticProperty, testing::Range<uint64_t>(1, 201));

// A fifth worker on another node alone would make the four slower; four do not.
TEST(Elastic, AJobGrowsOntoAnotherNodeWhereSeveralWorkersAreWorthIt) {
  JobCluster c(8);
  for (int d = 0; d < 8; ++d) c.device("d" + std::to_string(d)).node = d < 4 ? "a" : "b";
  c.job("j");
  JobView& state = c.state("j");
  state.step = StepModel{.alpha_c = 0.02, .beta_c = 0.01, .alpha_r = 0.02, .alpha_n = 0.4};
  std::get<TrainingSpec>(c.view("j").spec.kind).batch = {
      .least = 16, .most = 800, .most_local = 100};
  state.samples = 1'000'000;
  const auto of = [&](int workers, int nodes) {
    const Job job{&c.view("j"), nullptr, {}, {}};
    return goodput(job, {.count = workers, .nodes = nodes});
  };
  ASSERT_LT(of(5, 2), of(4, 1));
  ASSERT_GT(of(8, 2), of(4, 1) * 1.2);
  for (int i = 0; i < 3; ++i) c.tick();
  EXPECT_EQ(c.workers("j"), "d0 d1 d2 d3 d4 d5 d6 d7");
}

// Inference holds the whole window of two of the four devices.
TEST(Elastic, DevicesWithoutRoomForAWorkerDoNotCount) {
  JobCluster c(4);
  for (const char* d : {"d2", "d3"})
    c.instance(std::string("full-") + d, "other", d, slice(1000, 1000));
  c.job("a");
  for (int i = 0; i < 3; ++i) c.tick();
  ASSERT_EQ(c.workers("a"), "d0 d1");
  c.job("b");
  for (int i = 0; i < 3; ++i) c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(1));
  EXPECT_THAT(c.instances("b"), SizeIs(1));
}

TEST(Elastic, AFastNodeComesBeforeOneWithLessRoomBeyond) {
  JobCluster c(6);
  for (int d = 0; d < 6; ++d) c.device("d" + std::to_string(d)).node = d < 2 ? "a" : "b";
  c.used("d0", 800), c.used("d1", 800);
  c.job("j", {.most = 2});
  c.tick();
  EXPECT_EQ(c.workers("j"), "d2 d3");
}

TEST(Elastic, AJobLargerThanTheClusterDisturbsNoOther) {
  JobCluster c(4);
  c.job("big", {.least = 100});
  c.job("a");
  c.tick();
  EXPECT_EQ(c.workers("a"), "d0 d1 d2 d3");
  for (int i = 0; i < 30; ++i)
    for (const Action& action : c.tick()) EXPECT_EQ(action.function, fn("big"));
  c.job("b");
  c.tick(), c.tick();
  EXPECT_THAT(c.instances("b"), testing::Not(IsEmpty()));
}

// A long job beside a very short one: neither is left without a device.
TEST(Elastic, NoJobIsLeftWithoutADeviceForAnothersGain) {
  JobCluster c(2);
  for (const char* name : {"long", "short"}) {
    c.job(name);
    c.state(name).step = StepModel{.alpha_c = 1, .beta_c = 1};
    c.state(name).batch = 1;
  }
  c.state("long").samples = 1'000'000;
  c.state("short").samples = 100;
  for (int i = 0; i < 5; ++i) c.tick();
  EXPECT_THAT(c.instances("long"), SizeIs(1));
  EXPECT_THAT(c.instances("short"), SizeIs(1));
  EXPECT_NE(c.workers("long"), c.workers("short"));
}

}  // namespace
}  // namespace sluice::policy
