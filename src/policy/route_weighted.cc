// Smooth weighted round robin, as nginx has it: everybody who could be chosen earns its weight, the
// richest is chosen and pays what all of them earned. Balances add up to zero always, and over a
// period of Σ weights ÷ gcd choices everybody is chosen exactly in proportion. Who has no credit
// earns nothing, so that an instance that was busy is not flooded afterwards.
#include <algorithm>
#include <cmath>

#include "policy/route.h"

namespace sluice::policy {
namespace {

// Thousandths of an inference per second, so that sums are exact.
int64_t weight(const InstanceView& i) {
  constexpr double kMost = 1e9;
  return std::max<int64_t>(1, std::llround(std::clamp(i.capability, 0.0, kMost) * 1000));
}

}  // namespace

std::optional<size_t> route_weighted(std::span<InstanceView> instances, int revision) {
  std::optional<size_t> best;
  int64_t earned = 0;
  for (size_t i = 0; i < instances.size(); ++i) {
    InstanceView& instance = instances[i];
    if (instance.revision != revision || instance.credit <= 0) continue;
    instance.balance += weight(instance);
    earned += weight(instance);
    if (!best || instance.balance > instances[*best].balance) best = i;
  }
  if (best) instances[*best].balance -= earned;
  return best;
}

}  // namespace sluice::policy
