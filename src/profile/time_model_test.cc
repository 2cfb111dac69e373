#include "profile/time_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace sluice::profile {
namespace {

// A device on which a batch costs 2 ms, an inference 1 ms, and 0.5 ms of it divides over the sm.
double work(const Configuration& c) {
  return 0.002 + 0.001 * c.batch + 0.0005 * c.batch / c.sm.fraction();
}
double scheduled(const Configuration& c) {
  return work(c) / c.quota.fraction();
}
double throttled(const Configuration& c) {
  return std::max(work(c), 0.001 + 0.002 / c.quota.fraction());
}

const std::vector<Configuration> kTrials = {{1, Share{100}, kWhole}, {4, Share{500}, kWhole},
                                            {8, kWhole, kWhole},     {1, kWhole, Share{100}},
                                            {8, kWhole, Share{500}}, {4, Share{200}, kWhole},
                                            {1, kWhole, Share{300}}};

TEST(TimeModel, FindsBothWaysInWhichAQuotaActs) {
  for (const auto truth : {scheduled, throttled}) {
    std::vector<MeasuredPoint> trials;
    for (const Configuration& c : kTrials)
      trials.push_back({.at = c, .median = from_seconds(truth(c))});
    const TimeModel model = TimeModel::fit(trials);
    EXPECT_LT(model.error(), 1e-9);
    for (const int batch : {1, 2, 8})
      for (const int sm : {100, 300, 1000})
        for (const int quota : {100, 400, 1000}) {
          const Configuration c{batch, Share{sm}, Share{quota}};
          EXPECT_NEAR(model(c), truth(c), 0.02 * truth(c)) << batch << " " << sm << " " << quota;
        }
  }
}

TEST(TimeModel, IsNeverNegativeAndFallsWithResources) {
  // Noise that plain least squares would answer with negative coefficients.
  std::vector<MeasuredPoint> trials = {{.at = {1, kWhole, kWhole}, .median = Millis(10)},
                                       {.at = {8, kWhole, kWhole}, .median = Millis(9)},
                                       {.at = {4, Share{100}, kWhole}, .median = Millis(8)},
                                       {.at = {2, Share{500}, kWhole}}};  // could not run
  const TimeModel model = TimeModel::fit(trials);
  for (const int batch : {1, 16, 256}) {
    EXPECT_GT(model({batch, kWhole, kWhole}), 0);
    EXPECT_GE(model({batch, Share{100}, kWhole}), model({batch, kWhole, kWhole}));
    EXPECT_GE(model({batch, kWhole, Share{100}}), model({batch, kWhole, kWhole}));
  }
  EXPECT_EQ(TimeModel::fit({})({1, kWhole, kWhole}), 0);
}

}  // namespace
}  // namespace sluice::profile
