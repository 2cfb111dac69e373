#include "predict/step_objective.h"

#include <cmath>
#include <map>
#include <tuple>

namespace sluice::predict {
namespace {

constexpr double kGammaPrior = 1e-3, kBetaPrior = 1e-2;

// A root mean square of residuals, from its halves' sum Q = Σ wᵢ·rᵢ² ÷ 2 of weights with Σ wᵢ = 1:
// √(2Q) has the gradient ∇Q/√(2Q), and ∇²Q/√(2Q) bounds its curvature from above.
Local<kParameters> root(Local<kParameters> q) {
  constexpr double kFloor = 1e-12;  // a perfect fit has no gradient
  const double value = std::sqrt(2 * q.value + kFloor);
  for (size_t i = 0; i < kParameters; ++i) {
    q.gradient[i] /= value;
    for (size_t j = 0; j <= i; ++j) q.curvature[i][j] /= value;
  }
  q.value = value;
  return q;
}

void add_to(Local<kParameters>& sum, const Local<kParameters>& term) {
  sum.value += term.value;
  for (size_t i = 0; i < kParameters; ++i) {
    sum.gradient[i] += term.gradient[i];
    for (size_t j = 0; j <= i; ++j) sum.curvature[i][j] += term.curvature[i][j];
  }
}

// ln T and its derivatives by the parameters.
struct LogTime {
  double value = 0;
  Theta by{};
};

LogTime log_grad(const Theta& x, const StepGroup& g) {
  const double unit = x[kAlphaC] + x[kBetaC] * g.local;
  LogTime t{std::log(unit / g.speed), {}};
  t.by[kAlphaC] = 1 / unit;
  t.by[kBetaC] = g.local / unit;
  return t;
}

// With r = shorter ÷ longer of T_grad and T_sync: ln T_step = ln longer + ln(1 + r^γ) ÷ γ. T_grad's
// part of its derivative is T_grad^γ ÷ (T_grad^γ + T_sync^γ), T_sync's is the rest.
LogTime log_step(const Theta& x, const StepGroup& g, const LogTime& grad) {
  if (!g.syncs()) return grad;
  const double sync = x[g.alpha()] + x[g.beta()] * g.more();
  const double log_sync = std::log(sync), gamma = x[kGamma];
  const double log_ratio = -std::abs(grad.value - log_sync);
  const double power = std::exp(gamma * log_ratio), rest = std::log1p(power) / gamma;
  const double shorter = power / (1 + power);
  const double of_grad = grad.value > log_sync ? 1 - shorter : shorter;
  LogTime t{std::max(grad.value, log_sync) + rest, {}};
  t.by[kAlphaC] = of_grad * grad.by[kAlphaC];
  t.by[kBetaC] = of_grad * grad.by[kBetaC];
  t.by[g.alpha()] = (1 - of_grad) / sync;
  t.by[g.beta()] = (1 - of_grad) * g.more() / sync;
  t.by[kGamma] = (shorter * log_ratio - rest) / gamma;
  return t;
}

void add_errors(Local<kParameters>& sum, const LogTime& t, const Logs& measured, double all) {
  sum.add_square(measured.n / all, t.value - measured.mean, t.by);
  sum.value += measured.scatter / all / 2;
}

void add_beta_prior(Local<kParameters>& sum, const Theta& x, Parameter alpha, Parameter beta) {
  const double ratio = x[beta] / x[alpha];
  Theta by{};
  by[alpha] = -ratio / x[alpha];
  by[beta] = 1 / x[alpha];
  sum.add_square(2 * kBetaPrior, ratio, by);
}

}  // namespace

void Logs::add(double time, double weight) {
  const double value = std::log(time), off = value - mean;
  n += weight;
  mean += off * weight / n;
  scatter += off * (value - mean) * weight;
}

std::vector<StepGroup> grouped(std::span<const StepSample> samples) {
  std::map<std::tuple<int, int, double, double>, StepGroup> groups;
  for (const StepSample& s : samples) {
    if (!(s.step_seconds > 0 && std::isfinite(s.step_seconds))) continue;
    if (s.workers < 1 || !(s.local_batch > 0) || !(s.speed > 0) || !(s.weight > 0)) continue;
    StepGroup& g = groups[{s.workers, s.nodes, s.local_batch, s.speed}];
    g.workers = s.workers, g.nodes = s.nodes, g.local = s.local_batch, g.speed = s.speed;
    g.step.add(s.step_seconds, s.weight);
    const bool split = s.sync_seconds > 0 && s.sync_seconds < s.step_seconds;
    if (split)
      g.grad.add(s.step_seconds - s.sync_seconds, s.weight);
    else if (s.workers == 1)
      g.grad.add(s.step_seconds, s.weight);
  }
  std::vector<StepGroup> all;
  for (const auto& [key, group] : groups) all.push_back(group);
  return all;
}

StepObjective::StepObjective(std::span<const StepGroup> groups) : groups_(groups) {
  for (const StepGroup& g : groups) grads_ += g.grad.n, steps_ += g.step.n;
}

Local<kParameters> StepObjective::operator()(const Theta& x) const {
  Local<kParameters> grads, steps, sum;
  for (const StepGroup& g : groups_) {
    const LogTime grad = log_grad(x, g);
    if (g.grad.n > 0) add_errors(grads, grad, g.grad, grads_);
    add_errors(steps, log_step(x, g, grad), g.step, steps_);
  }
  if (grads_ > 0) add_to(sum, root(grads));
  add_to(sum, root(steps));
  Theta by{};
  by[kGamma] = 1;
  sum.add_square(2 * kGammaPrior, x[kGamma] - 1, by);
  add_beta_prior(sum, x, kAlphaR, kBetaR);
  add_beta_prior(sum, x, kAlphaN, kBetaN);
  return sum;
}

}  // namespace sluice::predict
