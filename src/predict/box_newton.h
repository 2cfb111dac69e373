// The least value of a smooth function of few variables within a box: Newton's method with
// Levenberg's and Marquardt's damping. It suits sums of squares, whose curvature JᵀJ needs no
// second derivatives. Deterministic, without state.
//
// Each step solves (H + λ·diag H)·d = −g over the variables that no bound holds, and clamps x + d
// to the box. λ falls after a step that helped and rises after one that did not. The damping is in
// the variables' own scales, so seconds and seconds per byte need no scaling.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace sluice::predict {

template <size_t N>
using Vector = std::array<double, N>;

// A function near a point: its value, its gradient, and a positive semidefinite curvature.
template <size_t N>
struct Local {
  double value = 0;
  Vector<N> gradient{};
  std::array<Vector<N>, N> curvature{};

  // Adds weight · r² ÷ 2, where r has these derivatives.
  void add_square(double weight, double r, const Vector<N>& derivatives) {
    value += weight * r * r / 2;
    for (size_t i = 0; i < N; ++i) {
      const double scaled = weight * derivatives[i];
      gradient[i] += scaled * r;
      for (size_t j = 0; j <= i; ++j) curvature[i][j] += scaled * derivatives[j];
    }
  }
};

// A variable whose bounds are equal stays where it is.
template <size_t N>
struct Box {
  Vector<N> low{}, high{};
};

template <size_t N>
struct Least {
  Vector<N> at{};
  double value = 0;
};

// Solves (H + λ·diag H)·d = −g by Cholesky's factors, with d = 0 for variables that are not free.
// Only the lower triangle of H is read.
template <size_t N>
Vector<N> damped_step(const Local<N>& f, const std::array<bool, N>& free, double damping) {
  std::array<Vector<N>, N> factor{};
  Vector<N> d{};
  for (size_t i = 0; i < N; ++i) {
    if (!free[i]) continue;
    double pivot = f.curvature[i][i] * (1 + damping);
    d[i] = -f.gradient[i];
    for (size_t j = 0; j < i; ++j) {
      if (!free[j]) continue;
      double sum = f.curvature[i][j];
      for (size_t k = 0; k < j; ++k) sum -= factor[i][k] * factor[j][k];
      factor[i][j] = sum / factor[j][j];
      pivot -= factor[i][j] * factor[i][j];
      d[i] -= factor[i][j] * d[j];
    }
    // Rounding may leave nothing of the pivot; the damping alone is then a lower bound of it.
    factor[i][i] = std::sqrt(std::max(pivot, f.curvature[i][i] * damping));
    d[i] /= factor[i][i];
  }
  for (size_t i = N; i-- > 0;) {
    if (!free[i]) continue;
    for (size_t j = i + 1; j < N; ++j) d[i] -= factor[j][i] * d[j];
    d[i] /= factor[i][i];
  }
  return d;
}

// Returns the best point that was found from `start`, after at most `steps` further evaluations.
// `evaluate(x)` returns the function near x as Local<N>.
template <size_t N, class Evaluate>
Least<N> minimise(const Evaluate& evaluate, Vector<N> start, const Box<N>& box, int steps = 100) {
  constexpr double kEnough = 1e-8, kLeastDamping = 1e-9;
  for (size_t i = 0; i < N; ++i) start[i] = std::clamp(start[i], box.low[i], box.high[i]);
  Local<N> here = evaluate(start);
  Least<N> best{start, here.value};
  double damping = 1e-3;
  for (int step = 0; step < steps; ++step) {
    std::array<bool, N> free{};
    for (size_t i = 0; i < N; ++i)
      free[i] = here.curvature[i][i] > 0 &&
                (here.gradient[i] > 0 ? best.at[i] > box.low[i] : best.at[i] < box.high[i]);
    const Vector<N> d = damped_step(here, free, damping);
    Vector<N> next = best.at;
    double expected = 0;  // twice what the step gains, were the function quadratic
    for (size_t i = 0; i < N; ++i) {
      next[i] = std::clamp(next[i] + d[i], box.low[i], box.high[i]);
      expected -= here.gradient[i] * d[i];
    }
    if (!(expected > kEnough * best.value)) break;
    const Local<N> there = evaluate(next);
    if (there.value < best.value) {
      best = {next, there.value};
      here = there;
      damping = std::max(damping / 5, kLeastDamping);
    } else {
      damping *= 4;
    }
  }
  return best;
}

}  // namespace sluice::predict
