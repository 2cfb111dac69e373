#include <gtest/gtest.h>

#include <cmath>

#include "cli/arrivals.h"
#include "cli/rate_file.h"

namespace sluice::cli {
namespace {

std::vector<double> arrivals(const RatePlan& plan, Gaps gaps, uint64_t seed = 1) {
  Arrivals a(plan, gaps, seed);
  std::vector<double> out;
  while (const auto t = a.next()) out.push_back(seconds(*t));
  return out;
}

TEST(Arrivals, AConstantLoadIsEvenAndFollowsItsPlan) {
  const auto t = arrivals({{Seconds(2), 2}, {Seconds(1), 0}, {Seconds(1), 4}},
                          {.kind = Gaps::Kind::kConstant});
  const std::vector<double> want{0.5, 1.0, 1.5, 3.0, 3.25, 3.5, 3.75};
  ASSERT_EQ(t.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(t[i], want[i], 1e-6);
}

TEST(Arrivals, RandomLoadsHaveTheirRateAndTheirSpread) {
  for (const Gaps gaps : {Gaps{}, Gaps{Gaps::Kind::kGamma, 0.5}, Gaps{Gaps::Kind::kGamma, 3}}) {
    const RatePlan plan{{Seconds(2000), 20}, {Seconds(1000), 40}};
    const auto t = arrivals(plan, gaps, 7);
    EXPECT_NEAR(static_cast<double>(t.size()), total_requests(plan), 0.04 * total_requests(plan));
    double sum = 0, squares = 0;
    size_t n = 0;
    for (size_t i = 1; i < t.size() && t[i] < 2000; ++i, ++n) {
      sum += t[i] - t[i - 1];
      squares += (t[i] - t[i - 1]) * (t[i] - t[i - 1]);
    }
    const double mean = sum / n;
    EXPECT_NEAR(std::sqrt(squares / n - mean * mean) / mean, gaps.cv, 0.1 * gaps.cv);
  }
}

TEST(Arrivals, SameSeedSameLoad) {
  const RatePlan plan{{Seconds(10), 50}};
  EXPECT_EQ(arrivals(plan, {}, 3), arrivals(plan, {}, 3));
  EXPECT_NE(arrivals(plan, {}, 3), arrivals(plan, {}, 4));
}

TEST(RateFile, ReadsStepsDurationsAndComments) {
  const auto plan = parse_rates("# burst\n1.5\n\n500ms 20 # peak\n2m\t3\r\n", {.scale = 2});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(*plan, (RatePlan{{Seconds(1), 3}, {Millis(500), 40}, {Seconds(120), 6}}));
}

TEST(RateFile, FaultsNameTheLineTheTextAndWhatIsAllowed) {
  const auto fault = [](std::string_view text) { return parse_rates(text).error().message; };
  EXPECT_EQ(fault("1\nx"), "line 2: rate: 'x' is no number from 0 to 1000000 a second");
  EXPECT_EQ(fault("-1"), "line 1: rate: '-1' is no number from 0 to 1000000 a second");
  EXPECT_EQ(fault("nan"), "line 1: rate: 'nan' is no number from 0 to 1000000 a second");
  EXPECT_EQ(fault("5q 1"), "line 1: duration: '5q' is none like 500ms, 5s, 2m (at most 24h)");
  EXPECT_EQ(fault("0s 1"), "line 1: duration: '0s' is none like 500ms, 5s, 2m (at most 24h)");
  EXPECT_EQ(fault("\n# nothing\n"), "rates: there is no step in it");
}

TEST(RateFile, IsCutOrRepeatedToALength) {
  const RatePlan plan{{Seconds(2), 1}, {Seconds(1), 5}};
  EXPECT_EQ(fit_to(plan, Seconds(1)), (RatePlan{{Seconds(1), 1}}));
  EXPECT_EQ(fit_to(plan, Seconds(4)),
            (RatePlan{{Seconds(2), 1}, {Seconds(1), 5}, {Seconds(1), 1}}));
}

}  // namespace
}  // namespace sluice::cli
