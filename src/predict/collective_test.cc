#include "predict/collective.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"

namespace sluice::predict {
namespace {

using Samples = std::vector<CollectiveSample>;

constexpr double kMiB = 1 << 20;

// Exact times of a model at these ranks, from 1 KiB to 64 MiB.
Samples measured(const CollectiveModel& truth, const std::vector<int>& ranks) {
  Samples samples;
  for (const int k : ranks)
    for (double bytes = 1024; bytes <= 64 * kMiB; bytes *= 4)
      samples.push_back({k, bytes, all_reduce_seconds(truth, k, bytes)});
  return samples;
}

void expect_alike(const CollectiveModel& model, const CollectiveModel& truth, double within) {
  for (int ranks = 2; ranks <= 16; ++ranks)
    for (double bytes = 512; bytes <= 256 * kMiB; bytes *= 8)
      EXPECT_NEAR(all_reduce_seconds(model, ranks, bytes) / all_reduce_seconds(truth, ranks, bytes),
                  1, within)
          << ranks << " ranks, " << bytes << " bytes";
}

TEST(Collective, NothingIsExchangedByOneRankOrWithoutBytes) {
  const CollectiveModel model{1e-4, 1e-5, 1e-9, 1e-10};
  EXPECT_EQ(all_reduce_seconds(model, 1, kMiB), 0);
  EXPECT_EQ(all_reduce_seconds(model, 4, 0), 0);
  EXPECT_NEAR(all_reduce_seconds(model, 4, 1e6), 1e-4 + 6e-5 + 1.5e-3 + 6e-4, 1e-12);
}

TEST(Collective, NothingWithoutSamplesThatCount) {
  EXPECT_EQ(fit_collective({}), std::nullopt);
  EXPECT_EQ(fit_collective(Samples{{1, kMiB, 0.1}, {4, 0, 0.1}, {4, kMiB, 0}}), std::nullopt);
}

TEST(Collective, ARingIsKnownFromOneNumberOfRanks) {
  const CollectiveModel ring{.hop = 2e-5, .link = 2e-9};
  expect_alike(fit_collective(measured(ring, {4})).value(), ring, 1e-4);
}

TEST(Collective, OneSizeCountsAsTheLinks) {
  const auto model = fit_collective(Samples{{2, kMiB, 0.01}, {2, 1.1 * kMiB, 0.011}});
  EXPECT_EQ(model->hop, 0);
  EXPECT_NEAR(all_reduce_seconds(*model, 8, kMiB), 1.75 * 0.01, 1e-5);
}

TEST(Collective, TwoNumbersOfRanksTellWhatTheyShare) {
  const CollectiveModel truth{1e-4, 1e-5, 1e-9, 4e-10};
  expect_alike(fit_collective(measured(truth, {2, 6})).value(), truth, 1e-3);
}

TEST(Collective, NoiseAveragesOutOnEveryScale) {
  const CollectiveModel truth{1e-4, 1e-5, 1e-9, 4e-10};
  Random random(7);
  Samples samples;
  for (int i = 0; i < 20; ++i)
    for (CollectiveSample s : measured(truth, {2, 3, 4, 8})) {
      s.seconds *= std::exp(0.1 * random.normal());
      samples.push_back(s);
    }
  expect_alike(fit_collective(samples).value(), truth, 0.05);
}

TEST(Collective, NeverFallsWithBytesOrRanksWhateverWasMeasured) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    Samples samples;
    for (uint64_t n = 1 + random.below(12); n > 0; --n)
      samples.push_back({static_cast<int>(random.between(2, 8)), std::exp(20 * random.uniform()),
                         std::exp(-10 * random.uniform())});
    const CollectiveModel m = fit_collective(samples).value();
    double before = 0;
    for (int ranks = 1; ranks <= 16; ++ranks) {
      const double bytes = std::exp(20 * random.uniform());
      EXPECT_LE(all_reduce_seconds(m, ranks, bytes), all_reduce_seconds(m, ranks, 2 * bytes))
          << "seed " << seed;
      EXPECT_LE(before, all_reduce_seconds(m, ranks, kMiB)) << "seed " << seed;
      before = all_reduce_seconds(m, ranks, kMiB);
    }
  }
}

}  // namespace
}  // namespace sluice::predict
