#include "predict/step_timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"

namespace sluice::predict {
namespace {

// Every all-reduce of two ranks takes a second per byte.
constexpr CollectiveModel kSecondPerByte{.link = 1};
constexpr Workers kTwo{.count = 2};

// Three buckets, ready at half, three quarters and the end of 4 s, at any batch.
StepProfile three(double bytes) {
  return {.buckets = {{{2, 0}, bytes}, {{3, 0}, bytes}, {{4, 0}, bytes}},
          .compute = {4, 0},
          .optimizer_seconds = 0.5};
}

TEST(StepTimeline, OneWorkerOnlyComputes) {
  EXPECT_EQ(step_timeline(three(9), kSecondPerByte, {.count = 1}, 8), (StepTimeline{4, 0, 4.5}));
}

TEST(StepTimeline, OnlyTheLastAllReduceIsExposedWhereTheOthersFitBesideCompute) {
  EXPECT_EQ(step_timeline(three(0.5), kSecondPerByte, kTwo, 8), (StepTimeline{4, 4.5, 5}));
}

TEST(StepTimeline, AllReducesWaitForEachOther) {
  // The first begins at 2; each of the others begins when the one before it has ended.
  EXPECT_EQ(step_timeline(three(3), kSecondPerByte, kTwo, 8), (StepTimeline{4, 11, 11.5}));
}

TEST(StepTimeline, ContentionSlowsWhatIsComputedBesideAnAllReduce) {
  StepProfile profile = three(0.5);
  profile.contention = 1;
  // From 2 to 2.5 a quarter is computed, and from 2.5 on the rest; again from 3.25.
  EXPECT_EQ(step_timeline(profile, kSecondPerByte, kTwo, 8), (StepTimeline{4.5, 5, 5.5}));
  profile.contention = 1e12;  // one after the other
  EXPECT_NEAR(step_timeline(profile, kSecondPerByte, kTwo, 8).step_end, 4 + 1.5 + 0.5, 1e-9);
}

TEST(StepTimeline, ASlowerWorkerComputesLaterButExchangesAsFast) {
  EXPECT_EQ(step_timeline(three(0.5), kSecondPerByte, {.count = 2, .speed = 0.5}, 8),
            (StepTimeline{8, 8.5, 9.5}));
}

TEST(StepTimeline, TwoProfiledBatchesGiveALine) {
  const std::vector<ProfiledStep> steps{{8, {1, 2}, 3, 0.25}, {16, {1.5, 3}, 5, 0.75}};
  const std::vector<double> bytes{100, 200};
  const StepProfile profile = profile_of(steps, bytes).value();
  EXPECT_NEAR(profile.compute.at(32), 9, 1e-3);
  EXPECT_NEAR(profile.buckets[0].ready.at(32), 2.5, 1e-3);
  EXPECT_NEAR(profile.buckets[1].ready.constant, 1, 1e-3);
  EXPECT_EQ(profile.buckets[1].bytes, 200);
  EXPECT_EQ(profile.optimizer_seconds, 0.5);
}

TEST(StepTimeline, OneProfiledBatchOrTheProportionalScalingGivesALineThroughTheOrigin) {
  const std::vector<ProfiledStep> steps{{8, {1}, 3, 0}, {16, {1.5}, 5, 0}};
  const std::vector<double> bytes{100};
  EXPECT_NEAR(profile_of({steps.data(), 1}, bytes)->compute.at(24), 9, 1e-3);
  const auto proportional = profile_of(steps, bytes, BatchScaling::kProportional);
  EXPECT_EQ(proportional->compute.constant, 0);
  EXPECT_GT(proportional->compute.at(8), 2);
  EXPECT_LT(proportional->compute.at(8), 3);
}

TEST(StepTimeline, NothingOfStepsThatDoNotFitTheBuckets) {
  const std::vector<double> bytes{100};
  EXPECT_EQ(profile_of({}, bytes), std::nullopt);
  EXPECT_EQ(profile_of(std::vector<ProfiledStep>{{8, {1, 2}, 3, 0}}, bytes), std::nullopt);
  EXPECT_EQ(profile_of(std::vector<ProfiledStep>{{0, {1}, 3, 0}}, bytes), std::nullopt);
}

// A random profile whose buckets are ready in order, and the time of its parts alone.
struct Any {
  explicit Any(Random& random) {
    double constant = 0, per_sample = 0;
    for (uint64_t n = 1 + random.below(8); n > 0; --n) {
      constant += random.uniform(), per_sample += random.uniform() / 100;
      profile.buckets.push_back({{constant, per_sample}, 1e6 * random.uniform()});
    }
    profile.compute = {constant + random.uniform(), per_sample + random.uniform() / 100};
    profile.optimizer_seconds = random.uniform();
    profile.contention = random.chance(0.3) ? 0 : 2 * random.uniform();
    collective = {random.uniform() / 10, random.uniform() / 100, 1e-6 * random.uniform(),
                  1e-6 * random.uniform()};
    workers = {.count = static_cast<int>(random.between(2, 9)), .speed = 0.1 + random.uniform()};
    local = static_cast<double>(random.between(1, 100));
  }
  double step() const { return step_timeline(profile, collective, workers, local).step_end; }
  double compute() const { return profile.compute.at(local) / workers.speed; }
  double communication() const {
    double sum = 0;
    for (const auto& bucket : profile.buckets)
      sum += all_reduce_seconds(collective, workers.count, bucket.bytes);
    return sum;
  }

  StepProfile profile;
  CollectiveModel collective;
  Workers workers;
  double local = 1;
};

TEST(StepTimeline, AStepLiesBetweenTheLongerOfItsHalvesAndTheirSum) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    Random random(seed);
    const Any any(random);
    const double rest = any.step() - any.profile.optimizer_seconds / any.workers.speed;
    EXPECT_GE(rest, std::max(any.compute(), any.communication()) * (1 - 1e-9)) << "seed " << seed;
    EXPECT_LE(rest, (any.compute() + any.communication()) * (1 + 1e-9)) << "seed " << seed;
  }
}

TEST(StepTimeline, AsASampleItWaitsForWhatComputationDoesNotHide) {
  const StepSample hidden = predicted_step(three(0.5), kSecondPerByte, {.count = 1}, 8);
  EXPECT_EQ(hidden, (StepSample{1, 1, 8, 4.5, 0}));
  EXPECT_EQ(predicted_step(three(3), kSecondPerByte, kTwo, 8), (StepSample{2, 1, 8, 11.5, 7}));
}

TEST(StepTimeline, MoreOfAnythingTakesNoLess) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    Random random(seed);
    const Any any(random);
    const auto expect_longer = [&](const char* what, const auto& change) {
      Any more = any;
      change(more);
      EXPECT_GE(more.step(), any.step() * (1 - 1e-9)) << what << ", seed " << seed;
    };
    const size_t bucket = random.below(any.profile.buckets.size());
    expect_longer("bytes", [&](Any& a) { a.profile.buckets[bucket].bytes *= 1.5; });
    expect_longer("workers", [](Any& a) { a.workers.count += 1; });
    expect_longer("batch", [](Any& a) { a.local += 5; });
    expect_longer("contention", [](Any& a) { a.profile.contention += 0.5; });
    expect_longer("slowness", [](Any& a) { a.workers.speed *= 0.8; });
  }
}

}  // namespace
}  // namespace sluice::predict
