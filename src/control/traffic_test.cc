#include "control/traffic.h"

#include <gtest/gtest.h>

#include <random>

#include "base/random.h"

namespace sluice::control {
namespace {

// A minute and a half of random steps: busy ones, pauses, long ticks.
TEST(Traffic, LatenciesAreThoseOfTheLastTenSeconds) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  ObservedTraffic counters;
  Traffic traffic;
  for (int n = 0; n < 500; ++n) {
    const Nanos elapsed = Millis(random.between(200, random.below(40) == 0 ? 70'000 : 300));
    if (random.below(3) == 0) {
      traffic.rest(elapsed);
    } else {
      const uint64_t served = random.below(4);
      counters.requests += served + 1;
      counters.ok += served;
      for (uint64_t i = 0; i < served; ++i) counters.latency.add(Millis(random.between(1, 1000)));
      traffic.step(counters, elapsed, false);
    }
    const auto [p50, p95, p99] = traffic.latencies();
    ASSERT_EQ(p50, traffic.latency(0.5, Seconds(10))) << n;
    ASSERT_EQ(p95, traffic.latency(0.95, Seconds(10))) << n;
    ASSERT_EQ(p99, traffic.latency(0.99, Seconds(10))) << n;
  }
  EXPECT_EQ(traffic.totals().latency, counters.latency);
}

// Ten clients are refused and come again every 100 ms, until they are answered.
TEST(Traffic, ARefusedRequestThatComesAgainIsOneOfTheRateAndOneViolation) {
  Traffic traffic;
  ObservedTraffic counters;
  counters.requests = counters.shed = 10;
  traffic.step(counters, Millis(500), false);
  EXPECT_NEAR(traffic.rate(Millis(500)), 20, 1e-9);
  EXPECT_EQ(traffic.violations(Millis(500)), 1);
  counters.requests += 40, counters.shed += 40, counters.repeated += 40;
  traffic.step(counters, Millis(400), false);
  EXPECT_EQ(traffic.rate(Millis(400)), 0);
  counters.requests += 10, counters.ok += 10, counters.inferences += 10, counters.repeated += 10;
  traffic.step(counters, Millis(100), false);
  EXPECT_NEAR(traffic.rate(Seconds(1)), 10, 1e-9);
  EXPECT_NEAR(traffic.violations(Seconds(1)), 0.5, 1e-9);
  EXPECT_EQ(traffic.totals().shed, 50u) << "what clients saw";
}

TEST(Traffic, AConcurrencyPeakLastsAMinute) {
  Traffic traffic;
  ObservedTraffic counters;
  const auto step = [&](double concurrency) {
    ++counters.requests;
    counters.concurrency_seconds += concurrency * 0.25;
    traffic.step(counters, Millis(250), false);
  };
  for (int n = 0; n < 8; ++n) step(1);
  for (int n = 0; n < 4; ++n) step(5);
  for (int n = 0; n < 8; ++n) step(2);
  EXPECT_NEAR(traffic.concurrency_peak(), 5, 1e-9);
  for (int n = 0; n < 4 * 56; ++n) step(2);
  EXPECT_NEAR(traffic.concurrency_peak(), 5, 1e-9);
  for (int n = 0; n < 4 * 6; ++n) step(2);
  EXPECT_NEAR(traffic.concurrency_peak(), 2, 1e-9);
}

}  // namespace
}  // namespace sluice::control
