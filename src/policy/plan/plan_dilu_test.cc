// plan_dilu: what its trials find of jobs whose speed is a curve over their share, in virtual time.
#include "policy/plan/plan_dilu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/job_cluster.h"

namespace sluice::policy {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// Jobs that do 1000 samples per second with all of their devices' time, and more with more of it
// until `saturates`. The slowest worker sets the speed.
class DiluCluster : public JobCluster {
 public:
  explicit DiluCluster(int devices, int saturates = 1000, double noise = 0, uint64_t seed = 1)
      : JobCluster(devices), saturates_(saturates), noise_(noise), draw_(seed) {
    plan = "dilu";
  }
  // A second of training, and a decision.
  const std::vector<Action>& second(const std::string& name = "j") {
    Share least = instances(name).empty() ? kNone : kWhole;
    for (const Instance* i : instances(name))
      least = std::min(least, i->state == InstanceState::kReady ? i->slice().quota.limit : kNone);
    if (least != share_) share_ = least, off_ = 1 + noise_ * (2 * draw_.uniform() - 1);
    state(name).done += std::lround(1000 * off_ * std::min(1.0, 1.0 * least.permille / saturates_));
    state(name).reported = now.now + Seconds(1);
    return tick(Seconds(1));
  }
  // Returns the reason of that rule; fails if it takes more than ten minutes.
  std::string until(const std::string& rule, const std::string& name = "j") {
    for (int n = 0; n < 600; ++n)
      for (const Action& a : second(name)) {
        resizes += std::holds_alternative<ResizeInstance>(a.what);
        if (a.function == fn(name) && a.reason.rule == rule) return a.reason.text;
      }
    ADD_FAILURE() << "no " << rule;
    return "";
  }
  Quota quota(const std::string& name = "j") const { return instances(name).at(0)->slice().quota; }

  int resizes = 0;

 private:
  const int saturates_;
  const double noise_;
  Random draw_;
  Share share_;
  double off_ = 1;
};

TEST(DiluPlan, FindsTheSharesThatKeepFourFifthsAndAllOfTheThroughput) {
  struct Case {
    int saturates;
    Quota found;
    int resizes;
  };
  // By hand, for 400: 500 suffices, 250 not, 375 does, 312 not, 343 and 327 do; then of the limit
  // 663, 495 and 411 suffice, 369 and 390 not, and 400 does.
  for (const Case& k : {Case{1000, {{812}, {988}}, 9}, Case{400, {{327}, {400}}, 13},
                        Case{100, {{93}, {107}}, 13}}) {
    DiluCluster c(2, k.saturates);
    c.job("j", {.most = 1});
    const std::string why = c.until("job-measured");
    EXPECT_EQ(c.quota(), k.found) << k.saturates << ": " << why;
    EXPECT_EQ(c.resizes, k.resizes) << k.saturates;
    EXPECT_THAT(why, HasSubstr(" keeps 80 % of the 1000.0/s that it does with all of a device's"));
    for (int n = 0; n < 60; ++n) EXPECT_THAT(c.second(), IsEmpty());
  }
}

TEST(DiluPlan, NoiseOfOnePercentMovesThemByNoMoreThanTheTolerance) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    DiluCluster c(2, 400, 0.01, seed);
    c.job("j", {.most = 1});
    c.until("job-measured");
    // What is taken for 80 % is 76.8 to 83.2 %, or the end of an interval that begins there; what
    // is taken for all is 96 % at least.
    EXPECT_GE(c.quota().request, Share{307}) << "seed " << seed;
    EXPECT_LE(c.quota().request, Share{353}) << "seed " << seed;
    EXPECT_GE(c.quota().limit, Share{384}) << "seed " << seed;
    EXPECT_LE(c.quota().limit, Share{420}) << "seed " << seed;
  }
}

TEST(DiluPlan, BesideANeighbourItIsNotMeasuredAndRequestsLittle) {
  DiluCluster c(1, 400);
  c.job("j", {.most = 1});
  EXPECT_THAT(c.until("job-starts"), HasSubstr("Its throughput with all of a device's time"));
  EXPECT_EQ(c.until("job-trial"),
            "To keep 80 % of the 1000.0/s that it does with all of a device's time, 0 % is too "
            "little and 100 % suffices: 50 % is tried.");
  for (int n = 0; n < 5; ++n) c.second();
  c.instance("n", "other", "d0", slice(1000, 100), {kNone, {900}});
  EXPECT_EQ(c.until("job-unmeasured"),
            "Its shares are measured while it is alone on its devices. Until then its request is 5 "
            "%, its limit 50 %.");
  EXPECT_EQ(c.quota(), (Quota{{50}, {500}}));
  for (int n = 0; n < 60; ++n) EXPECT_THAT(c.second(), IsEmpty());
  std::erase_if(c.now.instances, [](const Instance& i) { return i.id == "n"; });
  EXPECT_THAT(c.until("job-trial"), HasSubstr("50 % is tried")) << "the trial begins anew";
  c.until("job-measured");
  EXPECT_EQ(c.quota(), (Quota{{327}, {400}}));
}

TEST(DiluPlan, WhereNoDeviceIsFreeItStartsOnWhatInferenceLeaves) {
  DiluCluster c(1, 400);
  c.instance("n", "other", "d0", slice(1000, 900));
  c.job("j", {.most = 1});
  EXPECT_THAT(c.until("job-starts"), HasSubstr("Until then its request is 5 %"));
  EXPECT_EQ(c.quota(), (Quota{{50}, {500}}));
}

TEST(DiluPlan, InferenceHasTheTimeThatItNeeds) {
  for (const bool measured : {false, true}) {
    DiluCluster c(1, 1000);
    c.job("j", {.most = 1});
    c.until(measured ? "job-measured" : "job-starts");
    c.second();
    c.function("a", Millis(100), Millis(50));
    c.rate("a", 15);
    EXPECT_EQ(c.until("job-yields"), "Inference needs time of d0: its share is 5 % for a minute.");
    EXPECT_EQ(c.quota(), (Quota{{50}, {50}}));
    for (int n = 0; n < 5; ++n) c.second();
    EXPECT_FALSE(c.instances("a").empty()) << measured;
    EXPECT_EQ(c.quota().request, Share{50});
  }
}

TEST(DiluPlan, WorkersThatItDoesNotAskForLeave) {
  DiluCluster c(3);
  c.job("j", {.most = 3});
  c.until("job-starts");
  c.second();
  c.view("j").spec.training().max_workers = 1;
  EXPECT_EQ(c.until("job-shrinks"), "The job has no more than 1 worker.");
  c.second();
  EXPECT_EQ(c.workers("j"), "d0");
}

TEST(DiluPlan, ALostWorkerInterruptsATrialAndALostMemoryBeginsAnew) {
  DiluCluster c(3, 400);
  c.job("j", {.most = 2});
  c.until("job-trial"), c.until("job-trial");
  EXPECT_EQ(c.quota().limit, Share{250});
  c.device("d0").drained = true;
  c.second();
  EXPECT_EQ(c.workers("j"), "d1 d2");
  c.until("job-measured");
  EXPECT_EQ(c.quota(), (Quota{{327}, {400}}));
  c.device("d0").drained = false;
  c.device("d1").drained = true;
  EXPECT_THAT(c.until("job-starts"), HasSubstr("Started on d0. Its request of 32.7 % keeps 80 %"));
  for (int n = 0; n < 60; ++n) EXPECT_THAT(c.second(), IsEmpty());
  c.memories.clear();
  c.second();
  EXPECT_EQ(c.quota(), (Quota{kWhole, kWhole}));
  c.until("job-measured");
  EXPECT_EQ(c.quota(), (Quota{{327}, {400}}));
}

TEST(DiluPlan, PlacesMeasuredWorkersBesideOthersAndOnesThatAreNotAlone) {
  DiluCluster c(3, 400);
  c.job("j", {.most = 1});
  c.until("job-measured");
  c.job("k", {.most = 1});
  c.job("l", {.most = 4});
  const std::vector<Action> actions = c.second();
  EXPECT_EQ(c.workers("k"), "d1");
  EXPECT_EQ(c.why("l", actions),
            "job-waits: The job needs 4 workers, each on a device with 5 % of its time and the "
            "memory free; too few have that for the 4 that it lacks. Limits add up to at most 150 "
            "% of a device.");
  c.until("job-measured", "k");
  c.device("d1").drained = true;
  c.second("k");
  EXPECT_EQ(c.workers("k"), "d0") << "a device in use goes before an idle one";
}

TEST(DiluPlan, AJobThatReportsNothingKeepsItsFirstSlice) {
  DiluCluster c(1);
  c.job("j", {.most = 1});
  for (int n = 0; n < 100; ++n) EXPECT_EQ(c.tick().size(), n == 0);
  EXPECT_EQ(c.quota(), (Quota{kWhole, kWhole}));
}

}  // namespace
}  // namespace sluice::policy
