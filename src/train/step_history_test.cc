#include "train/step_history.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace sluice::train {
namespace {

TEST(StepHistory, HasNoModelBeforeTheFirstStep) {
  StepHistory steps;
  EXPECT_FALSE(steps.model());
  steps.add({}, 0, 0.1, 0);
  steps.add({}, 8, std::nan(""), 0);
  steps.add({.count = 0}, 8, 0.1, 0);
  EXPECT_FALSE(steps.model());
  steps.add({}, 8, 0.1, 0);
  EXPECT_TRUE(steps.model());
}

// Steps of a known model, each a tenth off: unseen workers and batches are predicted.
TEST(StepHistory, ItsModelPredictsWorkersAndBatchesThatWereNotSeen) {
  const StepModel truth{
      .alpha_c = 0.02, .beta_c = 0.0005, .alpha_r = 0.01, .beta_r = 0.002, .gamma = 1.5};
  Random random(3);
  StepHistory steps;
  for (const int workers : {1, 2, 4})
    for (const int batch : {64, 256})
      for (int i = 0; i < 40; ++i) {
        const double local = static_cast<double>(batch) / workers;
        const double noise = 0.9 + 0.2 * random.uniform();
        const double step = step_seconds(truth, {.count = workers}, local) * noise;
        const double grad = (truth.alpha_c + truth.beta_c * local) * noise;
        steps.add({.count = workers}, batch, step, step - grad);
      }
  for (const int workers : {3, 6})
    for (const double local : {24.0, 100.0}) {
      const double real = step_seconds(truth, {.count = workers}, local);
      EXPECT_NEAR(step_seconds(*steps.model(), {.count = workers}, local) / real, 1, 0.1)
          << workers << " workers, " << local;
    }
}

// Sums across nodes say nothing of those within one.
TEST(StepHistory, TellsOneNodeFromSeveral) {
  const StepModel truth{.alpha_c = 0.02, .beta_c = 0.0005, .alpha_r = 0.01, .alpha_n = 0.2};
  StepHistory steps;
  for (const int nodes : {1, 2})
    for (const int batch : {64, 256}) {
      const Workers workers{.count = 4, .nodes = nodes};
      const double step = step_seconds(truth, workers, batch / 4.0);
      steps.add(workers, batch, step, step - step_seconds(truth, {}, batch / 4.0));
    }
  for (const int nodes : {1, 2}) {
    const Workers workers{.count = 3, .nodes = nodes};
    EXPECT_NEAR(step_seconds(*steps.model(), workers, 30) / step_seconds(truth, workers, 30), 1,
                0.05)
        << nodes;
  }
}

// A step that is a timeline, on machines with these all-reduces.
struct Truth {
  const char* what;
  predict::StepProfile profile;
  predict::CollectiveModel collective;
  bool others = false;  // other jobs' groups of three and four workers were measured

  double step(int workers, double local) const {
    return predict::step_timeline(profile, collective, {.count = workers}, local).step_end;
  }
  GroupProfile profiled(int workers, int batch) const {
    GroupProfile p{.workers = {.count = workers}, .batch = batch, .steps = 5};
    const double local = p.local_batch();
    p.step = {local, {}, profile.compute.at(local), profile.optimizer_seconds};
    for (const auto& bucket : profile.buckets) {
      p.bytes.push_back(bucket.bytes);
      p.sum_seconds.push_back(predict::all_reduce_seconds(collective, workers, bucket.bytes));
      p.step.ready_seconds.push_back(bucket.ready.at(local));
    }
    return p;
  }
};

const predict::CollectiveModel kRing{.hop = 1e-4, .link = 1e-9};
const predict::CollectiveModel kSharedMemory{.hop = 1e-4, .shared = 4e-10};

// Computation of 50 ms at 32 samples, whose buckets complete evenly from its half on.
predict::StepProfile of_buckets(int count, double bytes) {
  predict::StepProfile p{.compute = {0.02, 0.03 / 32}, .optimizer_seconds = 0.002};
  for (int i = 0; i < count; ++i) {
    const double part = 0.5 + 0.5 * (i + 1) / count;
    p.buckets.push_back({{0.02 * part, 0.03 / 32 * part}, i + 1 < count ? bytes : bytes / 4});
  }
  return p;
}

const Truth kTruths[] = {
    {"hidden all-reduces", of_buckets(4, 2e6), kRing},
    {"one bucket behind all computation", of_buckets(1, 10e6), kRing},
    {"two buckets that overlap in part", of_buckets(2, 12e6), kRing},
    {"little communication", of_buckets(3, 1e5), kRing},
    {"shared memory, known of others' groups", of_buckets(2, 12e6), kSharedMemory, true},
};

// The profile of one group of two workers, and a step of it that was measured: what a plan knows of
// a job a few seconds after its first start.
TEST(StepHistory, AProfileOfTwoWorkersPredictsFourAndEight) {
  for (const Truth& truth : kTruths) {
    const auto all_reduces = std::make_shared<AllReduceHistory>();
    for (const int workers : {3, 4})
      for (const double bytes : {1e4, 1e6, 2e7})
        if (truth.others)
          all_reduces->add({.count = workers}, bytes,
                           predict::all_reduce_seconds(truth.collective, workers, bytes));
    StepHistory steps(all_reduces);
    steps.add_profile(truth.profiled(2, 64));
    ASSERT_EQ(steps.predicted().size(), 4U);
    for (const predict::StepSample& s : steps.predicted())
      EXPECT_NEAR(s.step_seconds / truth.step(s.workers, 32), 1, 0.02)
          << truth.what << ", " << s.workers;
    // The step model has another form: a line in the workers, and one exponent for the overlap.
    const auto expect_near = [&](const char* when) {
      for (const int workers : {1, 2, 4, 8})
        EXPECT_NEAR(step_seconds(*steps.model(), {.count = workers}, 32) / truth.step(workers, 32),
                    1, 0.08)
            << truth.what << ", " << workers << when;
    };
    expect_near(" by the profile alone");
    const double sync = truth.step(2, 32) - truth.profile.compute.at(32) - 0.002;
    steps.add({.count = 2}, 64, truth.step(2, 32), sync);
    EXPECT_EQ(steps.predicted().size(), 3U);
    expect_near(" with a measured step");
  }
}

// Those that were measured are twice as long as the profile says.
TEST(StepHistory, MeasuredStepsCorrectItsProfile) {
  const Truth& truth = kTruths[1];
  StepHistory steps;
  EXPECT_FALSE(steps.uses_profile());
  steps.add_profile(truth.profiled(2, 64));
  EXPECT_TRUE(steps.uses_profile());
  ASSERT_NE(steps.profile(), nullptr);
  const auto measure = [&](int workers) {
    const double step = 2 * truth.step(workers, 32);
    steps.add({.count = workers}, 32 * workers, step, step - 2 * truth.step(1, 32));
  };
  measure(2);
  EXPECT_NEAR(step_seconds(*steps.model(), {.count = 2}, 32) / truth.step(2, 32), 2, 0.3);
  EXPECT_TRUE(steps.uses_profile());
  measure(1), measure(4);
  EXPECT_FALSE(steps.uses_profile());
  for (const int workers : {1, 2, 4})
    EXPECT_NEAR(step_seconds(*steps.model(), {.count = workers}, 32) / truth.step(workers, 32), 2,
                0.1)
        << workers;
}

TEST(StepHistory, ProfilesAtTwoBatchesTellTheConstantPart) {
  const Truth& truth = kTruths[0];
  StepHistory steps;
  steps.add_profile(truth.profiled(2, 64));
  steps.add_profile(truth.profiled(2, 128));
  EXPECT_NEAR(step_seconds(*steps.model(), {}, 16) / truth.step(1, 16), 1, 0.05);
  // Another module under the same name.
  steps.add_profile(kTruths[1].profiled(2, 64));
  EXPECT_EQ(steps.profile()->bytes.size(), 1U);
}

TEST(AllReduceHistory, CountsNoTimeThatCannotBe) {
  AllReduceHistory all;
  all.add({.count = 1}, 1e6, 0.001);
  all.add({.count = 2}, 0, 0.001);
  all.add({.count = 2}, 1e6, 0);
  all.add({.count = 2}, 1e6, 1e-9);
  all.add({.count = 2}, 1e6, std::nan(""));
  all.add({.count = 2}, INFINITY, 1);
  EXPECT_FALSE(all.model(false));
  all.add({.count = 2}, 1e6, 0.001);
  EXPECT_FALSE(all.model(true));
  ASSERT_TRUE(all.model(false));
  EXPECT_NEAR(predict::all_reduce_seconds(*all.model(false), 2, 1e6), 0.001, 1e-6);
}

// What a device leaves to a worker changes: the last steps count.
TEST(StepHistory, Forgets) {
  StepHistory steps;
  for (int i = 0; i < 1000; ++i) steps.add({}, 64, 0.1, 0);
  for (int i = 0; i < 100; ++i) steps.add({}, 64, 0.3, 0);
  EXPECT_NEAR(step_seconds(*steps.model(), {.count = 1}, 64), 0.3, 0.01);
}

}  // namespace
}  // namespace sluice::train
