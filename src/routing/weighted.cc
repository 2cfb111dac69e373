// Smooth weighted round robin, as nginx has it. Every instance that could be chosen earns its
// weight; the richest is chosen and pays what all of them earned. Balances, the state's numbers,
// always add up to zero, and over a period of Σ weights ÷ gcd choices each instance is chosen
// exactly in proportion. An instance without credit earns nothing, so that it is not flooded
// afterwards.
#include <algorithm>
#include <cmath>

#include "routing/route.h"

namespace sluice::policy {
namespace {

// Thousandths of an inference per second, so that sums are exact.
int64_t weight(const InstanceView& i) {
  constexpr double kMost = 1e9;
  return std::max<int64_t>(1, std::llround(std::clamp(i.capability, 0.0, kMost) * 1000));
}

}  // namespace

std::optional<size_t> route_weighted(const RequestView& request,
                                     std::span<const InstanceView> instances, RouteState& state,
                                     Time) {
  std::vector<int64_t>& balance = state.instances;
  std::optional<size_t> best;
  int64_t earned = 0;
  for (size_t i = 0; i < instances.size(); ++i) {
    const InstanceView& instance = instances[i];
    if (instance.revision != request.revision || instance.credit <= 0) continue;
    const int64_t earns = weight(instance);
    balance[i] += earns;
    earned += earns;
    if (!best || balance[i] > balance[*best]) best = i;
  }
  if (best) balance[*best] -= earned;
  return best;
}

}  // namespace sluice::policy
