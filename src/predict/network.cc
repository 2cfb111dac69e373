#include "predict/network.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sluice::predict {
namespace {

double silu(double z) {
  return z / (1 + std::exp(-z));
}

// Writes silu(weights · x + bias). The inner loop runs over the outputs, so that the compiler can take several at
// once without another order of sums; most inputs of the first layer are 0.
void layer(std::span<const double> weights, std::span<const double> bias, std::span<const double> x,
           std::span<double> out) {
  std::copy(bias.begin(), bias.end(), out.begin());
  for (size_t j = 0; j < x.size(); ++j) {
    if (x[j] == 0) continue;
    const double* row = weights.data() + j * out.size();
    for (size_t i = 0; i < out.size(); ++i) out[i] += row[i] * x[j];
  }
  for (double& z : out) z = silu(z);
}

}  // namespace

bool Network::is_whole() const {
  return inputs > 0 && hidden > 0 && first.size() == hidden * inputs &&
         first_bias.size() == hidden && second.size() == hidden * hidden &&
         second_bias.size() == hidden && last.size() == hidden && direct.size() == inputs;
}

double Network::value(std::span<const double> x) const {
  constexpr size_t kRoom = 64;
  double room[2 * kRoom];
  std::vector<double> more;  // only a network wider than ours
  if (hidden > kRoom) more.resize(2 * hidden);
  const std::span<double> both(hidden > kRoom ? more.data() : room, 2 * hidden);
  const std::span<double> one = both.first(hidden), two = both.last(hidden);
  layer(first, first_bias, x, one);
  layer(second, second_bias, one, two);
  return std::inner_product(x.begin(), x.end(), direct.begin(), bias) +
         std::inner_product(two.begin(), two.end(), last.begin(), 0.0);
}

}  // namespace sluice::predict
