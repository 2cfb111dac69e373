#include "train/step_history.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace sluice::train {
namespace {

TEST(StepHistory, HasNoModelBeforeTheFirstStep) {
  StepHistory steps;
  EXPECT_FALSE(steps.model());
  steps.add(1, 0, 0.1, 0);
  steps.add(1, 8, std::nan(""), 0);
  steps.add(0, 8, 0.1, 0);
  EXPECT_FALSE(steps.model());
  steps.add(1, 8, 0.1, 0);
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
        steps.add(workers, batch, step, step - grad);
      }
  for (const int workers : {3, 6})
    for (const double local : {24.0, 100.0}) {
      const double real = step_seconds(truth, {.count = workers}, local);
      EXPECT_NEAR(step_seconds(*steps.model(), {.count = workers}, local) / real, 1, 0.1)
          << workers << " workers, " << local;
    }
}

// What a device leaves to a worker changes: the last steps count.
TEST(StepHistory, Forgets) {
  StepHistory steps;
  for (int i = 0; i < 1000; ++i) steps.add(1, 64, 0.1, 0);
  for (int i = 0; i < 100; ++i) steps.add(1, 64, 0.3, 0);
  EXPECT_NEAR(step_seconds(*steps.model(), {.count = 1}, 64), 0.3, 0.01);
}

}  // namespace
}  // namespace sluice::train
