#include "profile/trials_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "profile/search.h"

namespace sluice::profile {
namespace {

// Milliseconds.
double truth(const Configuration& c) {
  return (2 + c.batch + 3 * c.batch / c.sm.fraction()) / c.quota.fraction();
}
MeasuredPoint trial(int batch, int sm, int quota) {
  const Configuration at{batch, Share{sm}, Share{quota}};
  return {.at = at, .median = from_seconds(truth(at) / 1000)};
}

const std::vector<MeasuredPoint> kTrials{trial(1, 100, 1000), trial(4, 500, 1000),
                                         trial(8, 1000, 1000), trial(1, 1000, 100),
                                         trial(8, 1000, 500)};

TEST(Filled, HasEachCombinationOfWhatWasTried) {
  const std::vector<MeasuredPoint> all = filled(kTrials);
  EXPECT_EQ(all.size(), 3u * 3 * 3);
  for (const MeasuredPoint& p : all) {
    EXPECT_NEAR(millis(p.median) / truth(p.at), 1, 0.02) << p.at.batch << " " << p.at.sm.permille;
    EXPECT_EQ(p.filled, find(kTrials, p.at) == nullptr);
  }
}

TEST(Filled, IsNothingWithoutAMeasuredTime) {
  EXPECT_TRUE(filled({}).empty());
  const std::vector<MeasuredPoint> none{{.at = {1, kWhole, kWhole}}};
  EXPECT_EQ(filled(none), none);
}

TEST(TrialsModel, ATrialIsBelievedNearItAndHardlyElsewhere) {
  std::vector<MeasuredPoint> trials = kTrials;
  trials.push_back(trial(2, 200, 1000));
  trials.back().median = trials.back().median * 13 / 10;
  const TrialsModel model(trials);
  const Configuration here = trials.back().at, far{8, Share{900}, Share{600}};
  EXPECT_GT(millis(model(here)) / truth(here), 1.15);
  EXPECT_LT(model.deviation(here), 0.06);
  EXPECT_GT(model.deviation(far), 0.08);
}

}  // namespace
}  // namespace sluice::profile
