// A small fully connected network, run without a library: decisions ask for hundreds of values,
// each of a few thousand multiplications. Trained elsewhere (src/learn).
//
//   y = w · x + v · silu(W₂ · silu(W₁ · x + b₁) + b₂) + c,     silu(z) = z ÷ (1 + e^−z)
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace sluice::predict {

struct Network {
  size_t inputs = 0, hidden = 0;
  std::vector<double> first;        // W₁, by input and then by hidden unit
  std::vector<double> first_bias;   // b₁
  std::vector<double> second;       // W₂, likewise
  std::vector<double> second_bias;  // b₂
  std::vector<double> last;         // v
  std::vector<double> direct;       // w
  double bias = 0;                  // c

  bool operator==(const Network&) const = default;

  // Whether every part has the size that `inputs` and `hidden` ask for.
  bool is_whole() const;

  // REQUIRES: is_whole(), x.size() == inputs.
  double value(std::span<const double> x) const;
};

}  // namespace sluice::predict
