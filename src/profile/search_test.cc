#include "profile/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "base/random.h"

namespace sluice::profile {
namespace {

using Truth = std::function<double(const Configuration&)>;  // seconds

std::vector<MeasuredPoint> table_of(const Grid& g, const Truth& truth) {
  std::vector<MeasuredPoint> table;
  for (const int batch : g.batches)
    for (const Share sm : g.sms)
      for (const Share quota : g.quotas) {
        const Configuration c{batch, sm, quota};
        table.push_back({.at = c, .median = from_seconds(truth(c))});
      }
  return table;
}

Grid tenths() {
  Grid g{{1, 2, 4, 8, 16, 32}, {}, {kWhole}};
  for (int sm = 100; sm <= 1000; sm += 100) g.sms.push_back({sm});
  return g;
}

double part_of_best(const std::vector<MeasuredPoint>& table, const Trials& trials, Nanos in_time) {
  const MeasuredPoint *found = best_of(trials, in_time), *best = best_of(table, in_time);
  if (found == nullptr || best == nullptr) return 0;
  return efficacy(found->at, found->median) / efficacy(best->at, best->median);
}

double divides(const Configuration& c) {
  return 0.003 + 0.001 * c.batch + 0.002 * c.batch / c.sm.fraction();
}
// Large batches are worth while.
double mostly_fixed(const Configuration& c) {
  return 0.02 + 0.0002 * c.batch + (0.001 + 0.0003 * c.batch) / c.sm.fraction();
}

TEST(SearchPlans, AreNamedAndFoundByName) {
  for (const auto& plan : search_plans()) EXPECT_EQ(search_plan(plan->name()), plan.get());
  EXPECT_EQ(search_plan("guess"), nullptr);
}

TEST(GridPlan, TriesEachConfigurationOnceTheLargestQuotaFirst) {
  const Grid g{{1, 4}, {Share{500}, kWhole}, {Share{200}, kWhole}};
  const auto table = table_of(g, divides);
  const Trials trials = search_in(table, *search_plan("grid"), {g}, 100);
  ASSERT_EQ(trials.size(), 8u);
  EXPECT_TRUE(std::ranges::is_sorted(trials, std::greater{},
                                     [](const MeasuredPoint& p) { return p.at.quota; }));
  for (const MeasuredPoint& p : table) EXPECT_NE(find(trials, p.at), nullptr);
}

TEST(GrowthPlan, GrowsTheBatchWhileInTimeAndTheShareOtherwise) {
  const Trials trials =
      search_in(table_of(tenths(), divides), *search_plan("growth"), {tenths(), Millis(12)}, 100);
  std::string tried;
  for (const MeasuredPoint& p : trials)
    tried += std::to_string(p.at.batch) + "@" + std::to_string(p.at.sm.permille / 10) + " ";
  // One takes 14 ms on 20 % and 10.7 ms on 30 %; two take 11.7 ms on 60 %, which is less efficient.
  EXPECT_EQ(tried, "1@10 1@20 1@30 2@30 2@40 2@50 2@60 ");
}

TEST(FittedPlan, FindsTheBestInFewerTrialsThanGrowth) {
  const Search search{tenths(), Millis(40)};
  const auto table = table_of(tenths(), mostly_fixed);
  const Trials fitted = search_in(table, *search_plan("fitted"), search, 100),
               growth = search_in(table, *search_plan("growth"), search, 100);
  EXPECT_LE(fitted.size(), 6u);
  EXPECT_LT(fitted.size(), growth.size());
  EXPECT_EQ(part_of_best(table, fitted, search.in_time), 1);
}

// On few sm kernels take longer, so their launches are held up at smaller quotas only.
double throttled_by_sm(const Configuration& c) {
  return std::max(divides(c), 0.02 * c.sm.fraction() / c.quota.fraction());
}
TEST(FittedPlan, TriesLessTimeWhereItsModelIsTooCareful) {
  Grid g = tenths();
  g.quotas = g.sms;
  const auto table = table_of(g, throttled_by_sm);
  const Trials trials = search_in(table, *search_plan("fitted"), {g, Millis(30)}, 100);
  EXPECT_LE(trials.size(), 15u);
  EXPECT_GT(part_of_best(table, trials, Millis(30)), 0.97);
}

TEST(FittedPlan, TriesTheFastestWhereNothingSeemsInTime) {
  // Only the whole device is in time, far below what the corners let expect.
  const auto truth = [](const Configuration& c) {
    return c.batch == 1 && c.sm == kWhole ? 0.001 : 0.1 * c.batch;
  };
  const Search search{tenths(), Millis(2)};
  const Trials trials = search_in(table_of(tenths(), truth), *search_plan("fitted"), search, 100);
  ASSERT_NE(best_of(trials, search.in_time), nullptr);
}

TEST(SpreadPlan, LeavesTheWholeGridKnown) {
  Grid g = tenths();
  g.quotas = g.sms;
  const auto truth = [](const Configuration& c) { return divides(c) / c.quota.fraction(); };
  const auto table = table_of(g, truth);
  const Trials trials = search_in(table, *search_plan("spread"), {g}, 100);
  EXPECT_EQ(trials.size(), 20u);
  const auto quota_of = [](const MeasuredPoint& p) { return p.at.quota; };
  const auto [least, most] = std::ranges::minmax(trials, {}, quota_of);
  EXPECT_EQ(least.at.quota, Share{100});
  EXPECT_EQ(most.at.quota, kWhole);
  for (const Share quota : g.quotas)
    EXPECT_NE(std::ranges::find(trials, quota, quota_of), trials.end()) << quota.permille;
}

TEST(SearchProperty, PlansEndAndTryNothingTwice) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const Grid g = tenths();
    const double a = 0.01 * random.uniform(), b = 0.01 * random.uniform(),
                 d = 0.01 * random.uniform(), noise = random.uniform();
    const auto table = table_of(g, [&](const Configuration& c) {
      return (1e-5 + a + b * c.batch + d * c.batch / c.sm.fraction()) *
             (1 + noise * random.uniform());
    });
    const Search search{g, from_seconds(0.2 * random.uniform())};
    for (const auto& plan : search_plans()) {
      const Trials trials = search_in(table, *plan, search, 1000);
      ASSERT_LE(trials.size(), table.size()) << plan->name() << ", seed " << seed;
      for (const MeasuredPoint& p : trials)
        ASSERT_EQ(std::ranges::count(trials, p.at, &MeasuredPoint::at), 1)
            << plan->name() << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace sluice::profile
