#include "learn/rates.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "learn/builtin.h"
#include "learn/evaluation.h"
#include "learn/weights_json.h"

namespace sluice::learn {
namespace {

// Models of random operators, on a device whose times the formula has exactly.
trace::LatencyData exact_data(const std::vector<double>& rates, uint64_t seed) {
  Random random(seed);
  trace::LatencyData data;
  for (int m = 0; m < 20; ++m) {
    trace::LatencyModel& model = data.models.emplace_back();
    model.name = std::to_string(m);
    model.family = std::to_string(m % 5);
    for (uint64_t i = 0; i < 3 + random.below(20); ++i) {
      const auto side = static_cast<int64_t>(1 + random.below(100));
      const bool dense = random.chance(0.3), grouped = random.chance(0.3);
      model.graph.operators.push_back({.type = dense     ? "dense"
                                               : grouped ? "dwconv2d"
                                                         : "conv2d",
                                       .in = {1, side, side},
                                       .out = {1, side, 2 * side},
                                       .macs = static_cast<int64_t>(random.below(200'000'000)),
                                       .parameters = static_cast<int64_t>(random.below(5'000'000)),
                                       .kernel = random.chance(0.5) ? 1 : 3,
                                       .stride = 1,
                                       .groups = grouped ? 32 : 1,
                                       .from = {}});
    }
    predict::WorkWeights truth;
    truth.rates = rates;
    truth.issue.assign(std::size(kOperatorTypes), -30);
    const predict::WorkEstimate estimate(truth, model.graph);
    for (const int batch : {1, 2, 4, 8})
      for (const int share : {200, 1000})
        model.points.push_back(
            {{batch, {share}, kWhole}, estimate.ms({batch, {share}, kWhole}), -1});
  }
  return data;
}

TEST(Rates, AreFoundWhereTimesFollowThem) {
  const std::vector<double> rates{40, 50, 3, 500, 15, 30};
  const trace::LatencyData data = exact_data(rates, 5);
  const predict::WorkWeights found = fit_rates(data, [](const auto&, const auto&) { return true; });
  ASSERT_EQ(found.rates.size(), rates.size());
  for (size_t k = 0; k < rates.size(); ++k)
    EXPECT_NEAR(found.rates[k], rates[k], 0.05 * rates[k]) << k;
  const Errors errors = errors_of(
      "rates", "all", data, [](const auto&, const auto&) { return true; },
      by_work(data, found, false));
  EXPECT_LT(errors.mean, 1);
}
TEST(Rates, NoneIsNegativeWhateverWasMeasured) {
  trace::LatencyData data = exact_data({40, 50, 3, 500, 15, 30}, 7);
  Random random(7);
  for (trace::LatencyModel& m : data.models)
    for (trace::LatencyPoint& p : m.points) p.ms = 1 + 100 * random.uniform();
  for (const double rate : fit_rates(data, [](const auto&, const auto&) { return true; }).rates)
    EXPECT_GE(rate, 0);
}
TEST(Rates, ComeBackFromJsonAndOneIsBuiltIn) {
  const Learned* cpu = builtin_weights("cpu/800m");
  ASSERT_NE(cpu, nullptr);
  const auto back = learned_from(to_json(*cpu));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->weights.rates, cpu->weights.rates);
  EXPECT_EQ(back->from.unseen_error, cpu->from.unseen_error);
  nlohmann::json short_one = to_json(*cpu);
  short_one["rates"] = {1, 2};
  EXPECT_FALSE(learned_from(short_one).ok());
}

}  // namespace
}  // namespace sluice::learn
