#include "policy/forecast.h"

#include <algorithm>
#include <cmath>

namespace sluice::policy {
namespace {

Forecast first(double rate, double variance) {
  return {.expected = rate + std::sqrt(variance), .rate = rate, .variance = variance, .seen = true};
}

// One step of the filter; q and d are the variances of the process and of the measurement.
Forecast step(const Forecast& before, double measured, double q, double d) {
  const double predicted = before.variance + q;
  const double gain = predicted / (predicted + d);
  const double rate = before.rate + gain * (measured - before.rate);
  const double variance = (1 - gain) * predicted;
  return {.expected = rate + std::sqrt(variance), .rate = rate, .variance = variance, .seen = true};
}

// Returns the probability of at least `count` arrivals where `mean` are expected (Poisson).
double tail(double count, double mean) {
  double below = 0, term = std::exp(-mean);
  for (int k = 0; k < count; ++k) {
    below += term;
    term *= mean / (k + 1);
  }
  return 1 - below;
}

}  // namespace

Forecast kalman_paper(const Forecast& before, double rate, Nanos, double) {
  constexpr double kQ = 1, kD = 10, kP0 = 1;
  return before.seen ? step(before, rate, kQ, kD) : first(rate, kP0);
}

Forecast kalman(const Forecast& before, double rate, Nanos window, double each) {
  constexpr double kWander = 0.3;       // of the rate itself, in a second
  constexpr double kLeastWander = 0.5;  // requests per second, so that a rate of zero can be left
  constexpr double kNone = 1.0 / 1200;  // requests per second that are none
  constexpr double kBurst = 3;        // deviations above the estimate that chance does not explain
  constexpr double kChance = 2.5e-4;  // nor do few arrivals, whose number is far from normal
  constexpr double kManyArrivals = 100;
  constexpr double kEvidence = 4;  // arrivals in a window; fewer prove no rate at once
  const double w = seconds(window);
  const bool evident = rate * w >= kEvidence * each;
  if (!before.seen && evident) return first(rate, each * rate / w);
  const double wander = std::max(kLeastWander, kWander * before.rate);
  // No rate is so low that a window without requests proves it: at least one request is assumed.
  const double poisson = std::max(each * before.rate / w, each * each / (w * w));
  const double wandered = wander * wander * w;
  const double deviation = std::sqrt(before.variance + wandered + poisson);
  const double arrivals = rate * w / each;
  if (evident && rate - before.rate > kBurst * deviation &&
      (arrivals > kManyArrivals || tail(arrivals, before.rate * w / each) < kChance))
    return first(rate, each * rate / w);
  Forecast f = step(before, rate, wandered, poisson);
  if (f.rate < kNone) f.rate = 0;
  f.expected = f.rate + std::min(std::sqrt(f.variance), std::sqrt(each * f.rate / w));
  return f;
}

Forecast last_rate(const Forecast&, double rate, Nanos, double) {
  return {.expected = rate, .rate = rate, .variance = 0, .seen = true};
}

std::span<const Forecaster> forecasters() {
  static constexpr Forecaster kForecasters[] = {
      {"kalman-paper", "the Kalman filter as HAS-GPU's code sets it: Q 1, D 10", kalman_paper},
      {"kalman", "the Kalman filter, its noise scaled to the rate", kalman},
      {"last", "the last measured rate", last_rate},
  };
  return kForecasters;
}

const Forecaster* find_forecaster(std::string_view name) {
  for (const Forecaster& f : forecasters()) {
    if (f.name == name) return &f;
  }
  return nullptr;
}

}  // namespace sluice::policy
