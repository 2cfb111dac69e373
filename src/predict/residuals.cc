#include "predict/residuals.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sluice::predict {
namespace {

double apart(Share a, Share b) {
  return std::abs(std::log(static_cast<double>(a.permille) / b.permille));
}

double covariance(const Kernel& k, const Configuration& x, const Configuration& y) {
  const double b = std::abs(std::log(static_cast<double>(x.batch) / y.batch));
  const double s = apart(x.sm, y.sm), q = apart(x.quota, y.quota);
  const double near = k.near * std::exp(-b / k.near_b - s / k.near_s - q / k.near_q);
  return x.sm == y.sm ? near + k.state * std::exp(-b / k.state_b - q / k.state_q) : near;
}

size_t row(size_t i) {
  return i * (i + 1) / 2;
}

// L⁻¹ · y.
std::vector<double> forward(const std::vector<double>& l, std::vector<double> y) {
  for (size_t i = 0; i < y.size(); ++i) {
    for (size_t j = 0; j < i; ++j) y[i] -= l[row(i) + j] * y[j];
    y[i] /= l[row(i) + i];
  }
  return y;
}

}  // namespace

Residuals::Residuals(const Kernel& kernel, std::vector<Ratio> measured)
    : kernel_(kernel), measured_(std::move(measured)) {
  const size_t n = measured_.size();
  factor_.resize(row(n));
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j <= i; ++j) {
      double sum = covariance(kernel_, measured_[i].at, measured_[j].at);
      if (i == j) sum += kernel_.noise;
      for (size_t m = 0; m < j; ++m) sum -= factor_[row(i) + m] * factor_[row(j) + m];
      factor_[row(i) + j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / factor_[row(j) + j];
    }
  for (const Ratio& r : measured_) weights_.push_back(r.log);
  weights_ = forward(factor_, std::move(weights_));
  for (size_t i = n; i-- > 0;) {
    for (size_t j = i + 1; j < n; ++j) weights_[i] -= factor_[row(j) + i] * weights_[j];
    weights_[i] /= factor_[row(i) + i];
  }
}

Residuals::Guess Residuals::at(const Configuration& c) const {
  std::vector<double> k;
  Guess guess;
  for (size_t i = 0; i < measured_.size(); ++i) {
    k.push_back(covariance(kernel_, c, measured_[i].at));
    guess.log += k.back() * weights_[i];
  }
  double variance = covariance(kernel_, c, c);
  for (const double v : forward(factor_, std::move(k))) variance -= v * v;
  guess.deviation = std::sqrt(std::max(variance, 0.0));
  return guess;
}

}  // namespace sluice::predict
