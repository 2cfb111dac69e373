// forecast: the rate to be ready for. A forecaster is a pure step from the state before and a
// measured rate to the state after. The state is a plain value that the loop keeps for each
// function (one filter shared by all would mix their rates) and may store.
//
// The Kalman filter with A = H = 1:
//     P' = P + Q;  K = P' ÷ (P' + D);  R += K·(z − R);  P = (1 − K)·P'
//
//   kalman-paper   Q = 1, D = 10, P(0) = 1, at any rate: gain 0.27, estimate + 1·√P = + 1.6/s.
//                  It follows 90 % of a step within 8 measurements.
//   kalman         D is the variance of counting a Poisson rate R over a window w: R ÷ w. Q lets
//                  rates wander by 30 % of themselves (at least 0.5/s) in a second. The margin √P
//                  is then 0.6 to 1 Poisson deviations, and never more: without requests it falls
//                  to nothing with the estimate, which is nothing below one request in 20 minutes.
//                  A measurement three deviations above the estimate, as a Poisson count brings
//                  it once in 4,000 windows, is a burst and taken as it is: too much for a moment
//                  costs less than a queue. Fewer than four arrivals in a window are not such
//                  evidence: the filter follows them from zero.
//                  With windows of 1 s it follows a step to three times the rate within 6
//                  measurements from 1/s, 1 from 10/s up.
//                  Requests arrive, not inferences: a request that carries several is one
//                  arrival. D is that of a compound Poisson process, each × R ÷ w.
//   last           the last measurement.
//
// The lag of the window over which a rate was measured is added to this.
#pragma once

#include <span>
#include <string_view>

#include "base/clock.h"

namespace sluice::policy {

// Rates in inferences per second.
struct Forecast {
  double expected = 0;  // the estimate and its margin
  double rate = 0;      // the estimate R
  double variance = 1;  // its uncertainty P
  bool seen = false;    // had a measurement; the first one is taken as it is

  bool operator==(const Forecast&) const = default;
};

// `rate` was measured over `window`; requests carry `each` inferences on average.
// REQUIRES: rate ≥ 0, window > 0, each ≥ 1.
Forecast kalman_paper(const Forecast& before, double rate, Nanos window, double each = 1);
Forecast kalman(const Forecast& before, double rate, Nanos window, double each = 1);
Forecast last_rate(const Forecast& before, double rate, Nanos window, double each = 1);

struct Forecaster {
  std::string_view name;
  std::string_view summary;
  Forecast (*step)(const Forecast& before, double rate, Nanos window, double each);
};
std::span<const Forecaster> forecasters();
const Forecaster* find_forecaster(std::string_view name);  // nullptr: unknown name

}  // namespace sluice::policy
