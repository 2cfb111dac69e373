#include "model/step_model.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace sluice {
namespace {

// ImageNet on T4s: fitted to the Pollux artifact's measurements.
constexpr StepModel kImageNet{.alpha_c = 0.064,
                              .beta_c = 0.00449,
                              .alpha_r = 0.108,
                              .beta_r = 0.00189,
                              .alpha_n = 0.299,
                              .beta_n = 0.00656,
                              .gamma = 2.47};

TEST(StepModel, OneWorkerOnlyComputes) {
  EXPECT_DOUBLE_EQ(step_seconds(kImageNet, {.count = 1}, 100), 0.064 + 0.449);
  EXPECT_DOUBLE_EQ(step_seconds(kImageNet, {.count = 1, .speed = 0.5}, 100), 2 * (0.064 + 0.449));
}

TEST(StepModel, GammaLeadsFromOneAfterTheOtherToOverlapped) {
  StepModel m{.alpha_c = 0.3, .alpha_r = 0.1, .gamma = 1};
  EXPECT_DOUBLE_EQ(step_seconds(m, {.count = 2}, 1), 0.4);
  m.gamma = 10;
  EXPECT_NEAR(step_seconds(m, {.count = 2}, 1), 0.3, 1e-6);
}

TEST(StepModel, AStepIsNeverShorterThanEitherOfItsHalvesNorLongerThanBoth) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    Random random(seed);
    const StepModel m{random.uniform(),        random.uniform() / 100, random.uniform(),
                      random.uniform(),        random.uniform(),       random.uniform(),
                      1 + 9 * random.uniform()};
    const Workers w{static_cast<int>(random.between(2, 64)), static_cast<int>(random.between(1, 8)),
                    0.05 + random.uniform()};
    const double local = static_cast<double>(random.between(1, 1000));
    const double compute = (m.alpha_c + m.beta_c * local) / w.speed;
    const double sync =
        (w.nodes > 1 ? m.alpha_n : m.alpha_r) + (w.nodes > 1 ? m.beta_n : m.beta_r) * (w.count - 2);
    const double step = step_seconds(m, w, local);
    EXPECT_GE(step, std::max(compute, sync) * (1 - 1e-9)) << "seed " << seed;
    EXPECT_LE(step, (compute + sync) * (1 + 1e-9)) << "seed " << seed;
  }
}

TEST(BestBatch, GrowsWithTheNoiseAndWithTheWorkers) {
  const BatchRange range{.least = 32, .most = 8192};
  int before = 0;
  for (const double noise : {1.0, 100.0, 1000.0, 1e5}) {
    const BatchChoice choice = best_batch(kImageNet, {.count = 4}, noise, range);
    EXPECT_GE(choice.batch, before);
    before = choice.batch;
  }
  EXPECT_GT(before, 32);
  EXPECT_GE(best_batch(kImageNet, {.count = 16}, 1000, range).batch,
            best_batch(kImageNet, {.count = 2}, 1000, range).batch);
}

TEST(BestBatch, KeepsItsBounds) {
  const BatchRange range{.least = 32, .most = 8192, .most_local = 64};
  EXPECT_LE(best_batch(kImageNet, {.count = 4}, 1e7, range).batch, 256);
  EXPECT_EQ(best_batch(kImageNet, {.count = 4}, 1, {.least = 32, .most = 32}).batch, 32);
  // Each worker has a sample.
  EXPECT_EQ(best_batch(kImageNet, {.count = 64}, 1, {.least = 32, .most = 32}).batch, 0);
  EXPECT_EQ(
      best_batch(kImageNet, {.count = 4}, 1, {.least = 300, .most = 8192, .most_local = 64}).batch,
      0);
}

TEST(BestBatch, WithoutANoiseScaleThroughputDecides) {
  const BatchChoice choice = best_batch(kImageNet, {.count = 2}, 0, {.least = 32, .most = 1024});
  EXPECT_EQ(choice.batch, 1024);
  EXPECT_DOUBLE_EQ(choice.goodput, choice.throughput);
}

}  // namespace
}  // namespace sluice
