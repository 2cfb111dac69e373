#include "predict/step_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"

namespace sluice::predict {
namespace {

using Samples = std::vector<StepSample>;

// Like ImageNet on T4s, and like a small model that several nodes slow down.
constexpr StepModel kLarge{0.064, 0.00449, 0.108, 0.00189, 0.299, 0.00656, 2.47};
constexpr StepModel kSmall{0.007, 1e-6, 0.006, 1e-5, 0.0175, 0.0005, 1.2};

// Steps as Pollux measures them: T_sync is what the step takes beyond T_grad.
StepSample measured(const StepModel& truth, int workers, int nodes, double local,
                    double noise = 1) {
  const double grad = truth.alpha_c + truth.beta_c * local;
  const double step = step_seconds(truth, {workers, nodes}, local);
  return {workers, nodes, local, step * noise, (step - grad) * noise};
}

Samples grid(const StepModel& truth, const std::vector<int>& workers,
             const std::vector<double>& locals) {
  Samples samples;
  for (const int k : workers)
    for (const double local : locals) {
      samples.push_back(measured(truth, k, 1, local));
      if (k > 1) samples.push_back(measured(truth, k, 2, local));
    }
  return samples;
}

double largest_error(const StepModel& model, const StepModel& truth) {
  double largest = 0;
  for (const int workers : {1, 2, 3, 5, 8, 16})
    for (const int nodes : {1, 2})
      for (const double local : {16.0, 50.0, 100.0, 400.0}) {
        const Workers w{workers, std::min(nodes, workers)};
        largest = std::max(
            largest, std::abs(step_seconds(model, w, local) / step_seconds(truth, w, local) - 1));
      }
  return largest;
}

TEST(StepFit, NothingWithoutSamplesThatCount) {
  EXPECT_EQ(fit_step_model({}), std::nullopt);
  EXPECT_EQ(fit_step_model(Samples{{.step_seconds = 0},
                                   {.workers = 0, .step_seconds = 1},
                                   {.local_batch = 0, .step_seconds = 1},
                                   {.step_seconds = 1, .speed = 0}}),
            std::nullopt);
}

TEST(StepFit, PredictsWhatItDidNotSeeFromExactSteps) {
  for (const StepModel& truth : {kLarge, kSmall}) {
    const auto model = fit_step_model(grid(truth, {1, 2, 4, 8}, {20, 40, 80, 160}));
    EXPECT_LT(largest_error(model.value(), truth), 0.03);
  }
}

TEST(StepFit, NoiseOfFivePerCentLeavesLessThanFive) {
  Random random(5);
  Samples samples;
  for (int i = 0; i < 10; ++i)
    for (const int k : {1, 2, 4, 8})
      for (const double local : {20.0, 40.0, 80.0, 160.0})
        for (const int nodes : {1, 2})
          samples.push_back(
              measured(kLarge, k, std::min(nodes, k), local, std::exp(0.05 * random.normal())));
  EXPECT_LT(largest_error(fit_step_model(samples).value(), kLarge), 0.05);
}

TEST(StepFit, IsTheSameInAnyOrderAndForStepsThatRepeat) {
  const Samples once = grid(kLarge, {1, 2, 4}, {20, 80});
  const StepModel model = fit_step_model(once).value();
  Samples backwards(once.rbegin(), once.rend());
  EXPECT_LT(largest_error(fit_step_model(backwards).value(), model), 1e-6);
  Samples often;
  for (int i = 0; i < 5; ++i) often.insert(often.end(), once.begin(), once.end());
  EXPECT_LT(largest_error(fit_step_model(often).value(), model), 1e-6);
}

TEST(StepFit, OneBatchCountsHalfOfItsTimeAsConstant) {
  const auto model = fit_step_model(Samples{{.local_batch = 64, .step_seconds = 0.5}});
  EXPECT_NEAR(model->alpha_c, 0.25, 1e-9);
  EXPECT_NEAR(model->beta_c * 64, 0.25, 1e-4);
}

TEST(StepFit, AWeightCountsAsSoManySamples) {
  const StepSample once{.local_batch = 64, .step_seconds = 0.5},
      other{.local_batch = 64, .step_seconds = 1};
  StepSample heavy = other;
  heavy.weight = 3;
  const auto weighted = fit_step_model(Samples{once, heavy});
  const auto repeated = fit_step_model(Samples{once, other, other, other});
  EXPECT_NEAR(step_seconds(*weighted, {}, 64), step_seconds(*repeated, {}, 64), 1e-6);
  heavy.weight = 0;
  EXPECT_NEAR(step_seconds(*fit_step_model(Samples{once, heavy}), {}, 64), 0.5, 1e-6);
}

TEST(StepFit, MoreWorkersAreFreeUntilTheyWereTried) {
  const auto model = fit_step_model(grid(kLarge, {1}, {20, 80})).value();
  EXPECT_NEAR(step_seconds(model, {16, 4}, 40), step_seconds(model, {1, 1}, 40), 1e-4);
}

TEST(StepFit, TwoWorkersSayNothingOfAThird) {
  Samples samples;
  for (const int k : {1, 2})
    for (const double local : {20.0, 80.0}) samples.push_back(measured(kLarge, k, 1, local));
  const auto model = fit_step_model(samples).value();
  EXPECT_NEAR(step_seconds(model, {8, 1}, 40), step_seconds(model, {2, 1}, 40), 1e-4);
}

TEST(StepFit, SeveralNodesNotSeenYetAreATenthSlowerThanOne) {
  Samples samples;
  for (const int k : {1, 2, 4})
    for (const double local : {20.0, 80.0}) samples.push_back(measured(kLarge, k, 1, local));
  const auto model = fit_step_model(samples).value();
  EXPECT_GT(model.alpha_r, 0.05);
  EXPECT_DOUBLE_EQ(model.alpha_n, 1.1 * model.alpha_r);
  EXPECT_DOUBLE_EQ(model.beta_n, 1.1 * model.beta_r);
}

TEST(StepFit, OneNodeNotSeenYetExchangesForNothing) {
  Samples samples{measured(kLarge, 1, 1, 20), measured(kLarge, 1, 1, 80)};
  for (const int k : {2, 4, 8}) samples.push_back(measured(kLarge, k, 2, 40));
  const auto model = fit_step_model(samples).value();
  EXPECT_LT(model.alpha_r, 1e-6);
  EXPECT_NEAR(step_seconds(model, {4, 2}, 40), step_seconds(kLarge, {4, 2}, 40), 0.02);
}

TEST(StepFit, ASlowerWorkerTellsTheTimeAtFullSpeed) {
  Samples samples;
  for (const double local : {20.0, 40.0, 80.0}) {
    StepSample s = measured(kLarge, 1, 1, local);
    s.speed = 0.25, s.step_seconds /= s.speed;
    samples.push_back(s);
  }
  const auto model = fit_step_model(samples).value();
  EXPECT_NEAR(step_seconds(model, {1, 1, 1}, 40), step_seconds(kLarge, {1, 1}, 40), 1e-3);
  EXPECT_NEAR(step_seconds(model, {1, 1, 0.5}, 40), step_seconds(kLarge, {1, 1, 0.5}, 40), 2e-3);
}

TEST(StepFit, WithoutSynchronisationTimesTheStepsAreStillMet) {
  Samples samples = grid(kLarge, {1, 2, 4, 8}, {20, 40, 80, 160});
  for (StepSample& s : samples) s.sync_seconds = 0;
  EXPECT_LT(largest_error(fit_step_model(samples).value(), kLarge), 0.05);
}

TEST(StepFit, IsFiniteAndWithinItsBoundsWhateverWasMeasured) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    Samples samples;
    for (uint64_t n = 1 + random.below(8); n > 0; --n) {
      const int workers = static_cast<int>(random.between(1, 16));
      const double step = std::exp(-10 * random.uniform());
      samples.push_back({workers, static_cast<int>(random.between(1, workers)),
                         static_cast<double>(random.between(1, 1000)), step,
                         random.chance(0.5) ? step * random.uniform() : 0,
                         0.05 + random.uniform()});
    }
    const StepModel m = fit_step_model(samples).value();
    for (const double x : {m.alpha_c, m.beta_c, m.alpha_r, m.beta_r, m.alpha_n, m.beta_n}) {
      EXPECT_GE(x, 0) << "seed " << seed;
      EXPECT_LT(x, 1e3) << "seed " << seed;
    }
    EXPECT_GE(m.gamma, 1) << "seed " << seed;
    EXPECT_LE(m.gamma, 10) << "seed " << seed;
    EXPECT_GT(step_seconds(m, {4, 2}, 32), 0) << "seed " << seed;
  }
}

}  // namespace
}  // namespace sluice::predict
