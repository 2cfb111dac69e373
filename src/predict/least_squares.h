// The x ≥ 0 that minimises Σ (row · x − y)² over few variables (non-negative least squares): for
// every subset of variables the plain least squares over them, of which the best with x ≥ 0 is the
// answer. Exact, deterministic; 2^N small systems. A variable that no row needs is 0.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

namespace sluice::predict {

template <size_t N>
class LeastSquares {
 public:
  static_assert(N <= 8);
  using Row = std::array<double, N>;

  void add(const Row& row, double y) {
    for (size_t i = 0; i < N; ++i) {
      for (size_t j = 0; j < N; ++j) a_[i][j] += row[i] * row[j];
      b_[i] += row[i] * y;
    }
  }

  Row solve() const {
    Row best{};
    double least = 0;  // of Σ (row · x)² − 2·y·(row · x), which is 0 for x = 0
    for (unsigned subset = 1; subset < 1U << N; ++subset) {
      Row x{};
      if (!solve_for(subset, x)) continue;
      double value = 0;
      for (size_t i = 0; i < N; ++i) value -= x[i] * b_[i];
      if (value >= least * (1 + 1e-12)) continue;
      least = value;
      best = x;
    }
    return best;
  }

 private:
  // Gauss's elimination with pivots over the subset's variables. False: singular, or negative.
  bool solve_for(unsigned subset, Row& x) const {
    std::array<size_t, N> of{};
    size_t n = 0;
    for (size_t i = 0; i < N; ++i)
      if ((subset >> i & 1U) != 0) of[n++] = i;
    std::array<std::array<double, N + 1>, N> m{};
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) m[i][j] = a_[of[i]][of[j]];
      m[i][n] = b_[of[i]];
    }
    for (size_t k = 0; k < n; ++k) {
      size_t pivot = k;
      for (size_t i = k + 1; i < n; ++i)
        if (std::abs(m[i][k]) > std::abs(m[pivot][k])) pivot = i;
      std::swap(m[k], m[pivot]);
      if (std::abs(m[k][k]) <= 1e-12 * a_[of[k]][of[k]]) return false;
      for (size_t i = 0; i < n; ++i) {
        if (i == k) continue;
        const double f = m[i][k] / m[k][k];
        for (size_t j = k; j <= n; ++j) m[i][j] -= f * m[k][j];
      }
    }
    for (size_t i = 0; i < n; ++i) {
      x[of[i]] = m[i][n] / m[i][i];
      if (x[of[i]] < 0) return false;
    }
    return true;
  }

  std::array<Row, N> a_{};
  Row b_{};
};

}  // namespace sluice::predict
