#include "predict/network.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numbers>
#include <numeric>

// Where a processor takes four at once the loader chooses that form. Neither changes the order of
// sums, nor what is rounded. Sanitizers run too late for the loader's choice.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define SLUICE_SEVERAL_AT_ONCE __attribute__((target_clones("avx2", "default")))
#else
#define SLUICE_SEVERAL_AT_ONCE
#endif

namespace sluice::predict {
namespace {

// e^x = 2^k · 2^f with the nearest whole k and |f| ≤ ½, of which 2^f is Taylor's polynomial: within
// 10⁻¹¹. Without a call or a branch, so that the compiler can take several at once; the same on
// every machine.
inline double power_of_e(double x) {
  constexpr double kRound =
      6755399441055744.0;  // 1.5 · 2^52: the sum's last bits are the whole number
  constexpr double kMost = 700;
  const double above = x < -kMost ? -kMost : x;
  const double t = (above > kMost ? kMost : above) * std::numbers::log2e;
  const double shifted = t + kRound;
  const double f = (t - (shifted - kRound)) * std::numbers::ln2;
  double sum = 1.0 / 362880;  // written out: the compiler does not look into a loop in a loop
  sum = sum * f + 1.0 / 40320;
  sum = sum * f + 1.0 / 5040;
  sum = sum * f + 1.0 / 720;
  sum = sum * f + 1.0 / 120;
  sum = sum * f + 1.0 / 24;
  sum = sum * f + 1.0 / 6;
  sum = sum * f + 0.5;
  sum = sum * f + 1;
  sum = sum * f + 1;
  return std::bit_cast<double>(std::bit_cast<uint64_t>(sum) +
                               (std::bit_cast<uint64_t>(shifted) << 52));
}

inline double silu(double z) {
  return z / (1 + power_of_e(-z));
}

// Writes silu(weights · x + bias). The inner loop runs over the outputs, so that the compiler can
// take several at once without another order of sums; most inputs of the first layer are 0.
SLUICE_SEVERAL_AT_ONCE void layer(std::span<const double> weights, std::span<const double> bias,
                                  std::span<const double> x, std::span<double> out) {
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
