#include "predict/network.h"

#include <cmath>
#include <numeric>

namespace sluice::predict {
namespace {

double silu(double z) {
  return z / (1 + std::exp(-z));
}

// Writes silu(rows · x + bias).
void layer(std::span<const double> rows, std::span<const double> bias, std::span<const double> x,
           std::span<double> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const std::span<const double> row = rows.subspan(i * x.size(), x.size());
    out[i] = silu(std::inner_product(x.begin(), x.end(), row.begin(), bias[i]));
  }
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
