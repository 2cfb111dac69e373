#include "profile/time_model.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "predict/least_squares.h"

namespace sluice::profile {
namespace {

constexpr int kRounds = 4;         // of telling apart what the launches and what the work held up
constexpr double kClearly = 1.05;  // slower than the work alone explains

std::array<double, 4> work_of(const Configuration& c) {
  const double b = c.batch, s = c.sm.fraction();
  return {1, b, b / s, 1 / s};
}

// One trial alone is explained by the first.
std::array<double, 2> throttle_of(const Configuration& c) {
  return {1 / c.quota.fraction(), 1};
}

template <size_t N>
double dot(const std::array<double, N>& a, const std::array<double, N>& b) {
  double sum = 0;
  for (size_t i = 0; i < N; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

double TimeModel::compute(const Configuration& at) const {
  return dot(compute_, work_of(at));
}

double TimeModel::launch(const Configuration& at) const {
  return dot(launch_, throttle_of(at));
}

double TimeModel::operator()(const Configuration& at) const {
  if (throttled_) return std::max(compute(at), launch(at));
  return compute(at) / at.quota.fraction();
}

void TimeModel::fit_scheduled(std::span<const MeasuredPoint> trials) {
  predict::LeastSquares<4> sum;
  for (const MeasuredPoint& p : trials) {
    auto row = work_of(p.at);
    for (double& x : row) x /= p.at.quota.fraction() * seconds(p.median);
    sum.add(row, 1);
  }
  throttled_ = false;
  compute_ = sum.solve();
}

// Alternates between both parts and which trials show which.
void TimeModel::fit_throttled(std::span<const MeasuredPoint> trials) {
  throttled_ = true;
  for (int round = 0; round < kRounds; ++round) {
    predict::LeastSquares<4> work;
    predict::LeastSquares<2> throttle;
    for (size_t i = 0; i < trials.size(); ++i) {
      const MeasuredPoint& p = trials[i];
      const double t = seconds(p.median);
      if (p.at.quota < kWhole && (round == 0 || t > kClearly * compute(p.at))) {
        auto row = throttle_of(p.at);
        for (double& x : row) x /= t;
        throttle.add(row, 1);
      } else {
        auto row = work_of(p.at);
        for (double& x : row) x /= t;
        work.add(row, 1);
      }
    }
    compute_ = work.solve();
    launch_ = throttle.solve();
  }
}

void TimeModel::judge(std::span<const MeasuredPoint> trials) {
  error_ = 0;
  for (const MeasuredPoint& p : trials)
    error_ += std::pow((*this)(p.at) / seconds(p.median) - 1, 2);
  if (!trials.empty()) error_ /= static_cast<double>(trials.size());
}

TimeModel TimeModel::fit(std::span<const MeasuredPoint> trials) {
  std::vector<MeasuredPoint> ran;
  std::copy_if(trials.begin(), trials.end(), std::back_inserter(ran),
               [](const MeasuredPoint& p) { return p.median > Nanos(0); });
  TimeModel scheduled, throttled;
  scheduled.fit_scheduled(ran);
  scheduled.judge(ran);
  throttled.fit_throttled(ran);
  throttled.judge(ran);
  return throttled.error_ < scheduled.error_ ? throttled : scheduled;
}

}  // namespace sluice::profile
