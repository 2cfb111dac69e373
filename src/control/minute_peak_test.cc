#include "control/minute_peak.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/random.h"

namespace sluice::control {
namespace {

TEST(MinutePeak, IsTheLargestOfTheLastMinute) {
  constexpr uint64_t kSeed = 3;
  Random random(kSeed);
  MinutePeak peak;
  EXPECT_EQ(peak.most(), 0);
  std::vector<std::pair<Time, double>> all;
  Time now{Seconds(100)};
  for (int i = 0; i < 5'000; ++i) {
    now += Millis(1 + static_cast<int64_t>(random.below(900)));
    all.emplace_back(now, static_cast<double>(random.below(1'000)));
    peak.add(now, all.back().second);
    double most = 0;
    for (auto at = all.rbegin(); at != all.rend() && now - at->first < Seconds(60); ++at)
      most = std::max(most, at->second);
    ASSERT_EQ(peak.most(), most) << "seed " << kSeed << ", number " << i;
  }
}

}  // namespace
}  // namespace sluice::control
