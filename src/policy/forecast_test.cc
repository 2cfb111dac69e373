#include "policy/forecast.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace sluice::policy {
namespace {

using Step = Forecast (*)(const Forecast&, double, Nanos, double);

Forecast settled(Step step, double rate) {
  Forecast f;
  for (int i = 0; i < 200; ++i) f = step(f, rate, Seconds(1), 1);
  return f;
}

// Returns the measurements until the estimate has followed 90 % of a step of the rate.
int lag(Step step, double from, double to) {
  Forecast f = settled(step, from);
  for (int n = 1; n < 100; ++n) {
    f = step(f, to, Seconds(1), 1);
    if (std::abs(f.rate - from) >= 0.9 * std::abs(to - from)) return n;
  }
  return 100;
}

TEST(Forecast, PaperSettingIsAbsolute) {
  const Forecast f = settled(kalman_paper, 50);
  EXPECT_NEAR(f.rate, 50, 1e-9);
  EXPECT_NEAR(f.expected - f.rate, 1.64, 0.01);  // 1·√P
  // Gain 0.27: P' = (1 + √41) ÷ 2, K = P' ÷ (P' + 10).
  EXPECT_NEAR(kalman_paper(f, 60, Seconds(1)).rate - 50, 2.7, 0.01);
}

TEST(Forecast, FirstMeasurementIsTakenAsItIs) {
  EXPECT_EQ(kalman_paper({}, 40, Seconds(1)).expected, 41);
  EXPECT_EQ(kalman({}, 25, Seconds(1)).expected, 30);  // one Poisson deviation
  EXPECT_EQ(last_rate({}, 40, Seconds(1)).expected, 40);
}

// From any state: one to three arrivals prove no rate worth a device.
TEST(Forecast, AFewArrivalsAreNoRate) {
  const Nanos window = Millis(500);
  for (const int arrivals : {1, 2, 3}) {
    Forecast idle = kalman({}, 0, window);
    for (int n = 0; n < 20; ++n) idle = kalman(idle, 0, window);
    for (const Forecast& before : {Forecast{}, kalman({}, 0, window), idle}) {
      const Forecast f = kalman(before, arrivals / seconds(window), window);
      EXPECT_LT(f.expected, 2.5) << arrivals << ": without a floor, three make 9.5/s";
    }
  }
  EXPECT_EQ(kalman({}, 8, window).rate, 8) << "four are a rate";
}

TEST(Forecast, ARequestOfManyInferencesIsOneArrival) {
  const Nanos window = Millis(500);
  constexpr double kEach = 8;
  Forecast f = kalman({}, 0, window, kEach);
  for (int n = 0; n < 20; ++n) f = kalman(f, 0, window, kEach);
  EXPECT_LT(f.expected, kEach / 2);
  for (const int requests : {1, 2, 3})
    EXPECT_LT(kalman(f, requests * kEach / seconds(window), window, kEach).expected, kEach / 2);
  EXPECT_EQ(kalman(f, 16 * kEach, window, kEach).rate, 16 * kEach) << "eight are a burst";
}

TEST(Forecast, LagIsAsTheHeaderSays) {
  EXPECT_EQ(lag(kalman, 1, 3), 6);
  EXPECT_EQ(lag(kalman, 10, 30), 1);
  EXPECT_EQ(lag(kalman, 100, 300), 1);
  EXPECT_EQ(lag(kalman, 300, 100), 1);
  for (const double from : {1.0, 10.0, 100.0}) EXPECT_EQ(lag(kalman_paper, from, 3 * from), 8);
}

// From any rate: a margin that stays would start an instance for nothing.
TEST(Forecast, WithoutRequestsItFallsToNothing) {
  const Nanos window = Millis(500);
  for (const double rate : {0.0, 0.2, 1.0, 30.0, 1000.0}) {
    Forecast f;
    for (int n = 0; n < 200; ++n) f = kalman(f, rate, window, 1);
    for (int n = 0; n < 60; ++n) f = kalman(f, 0, window, 1);
    EXPECT_LT(f.expected, 0.1) << rate << ": after half a minute";
    for (int n = 0; n < 60; ++n) f = kalman(f, 0, window, 1);
    EXPECT_EQ(f.expected, 0) << rate << ": after a minute";
  }
}

TEST(Forecast, LeavesZeroAtOnce) {
  EXPECT_EQ(lag(kalman, 0, 30), 1);
}

TEST(Forecast, ASteadyRateIsSeldomTakenForABurst) {
  const uint64_t seed = 11;
  SCOPED_TRACE(seed);
  Random random(seed);
  const Nanos window = Millis(500);
  for (const double rate : {1.0, 8.0, 80.0}) {
    Forecast f;
    int above = 0;
    constexpr int kSteps = 10'000;
    for (int i = 0; i < kSteps; ++i) {
      int arrivals = 0;
      for (double t = random.exponential(1 / rate); t < seconds(window);
           t += random.exponential(1 / rate))
        ++arrivals;
      f = kalman(f, arrivals / seconds(window), window);
      above += f.expected > 3 * rate + 3;
    }
    EXPECT_LT(above, kSteps / 100) << rate;
  }
}

TEST(Forecast, MarginIsAboutOnePoissonDeviation) {
  for (const double rate : {1.0, 4.0, 25.0, 100.0, 1000.0}) {
    const Forecast f = settled(kalman, rate);
    EXPECT_GT(f.expected - f.rate, 0.6 * std::sqrt(rate)) << rate;
    EXPECT_LE(f.expected - f.rate, std::sqrt(rate)) << rate;
  }
}

TEST(Forecast, ALongerWindowIsBelievedMore) {
  EXPECT_LT(kalman({}, 25, Seconds(10)).variance, kalman({}, 25, Seconds(1)).variance);
}

TEST(Forecast, EveryForecasterOfTheTableStaysFiniteAndNotNegative) {
  const uint64_t seed = 3;
  SCOPED_TRACE(seed);
  for (const Forecaster& forecaster : forecasters()) {
    EXPECT_EQ(find_forecaster(forecaster.name), &forecaster);
    Random random(seed);
    Forecast f;
    for (int i = 0; i < 1000; ++i) {
      const double rate = random.chance(0.3) ? 0 : random.exponential(200);
      f = forecaster.step(f, rate, Millis(1 + random.below(10000)), 1 + random.below(8));
      ASSERT_TRUE(std::isfinite(f.expected)) << forecaster.name;
      ASSERT_GE(f.rate, 0) << forecaster.name;
    }
  }
  EXPECT_EQ(find_forecaster("oracle"), nullptr);
}

}  // namespace
}  // namespace sluice::policy
