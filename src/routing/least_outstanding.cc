// Each choice numbers its instance one above the rest, so of equal ones the smallest number is the
// one that has waited longest for its turn.
#include <algorithm>
#include <utility>

#include "routing/route.h"

namespace sluice::policy {

std::optional<size_t> route_least_outstanding(const RequestView& request,
                                              std::span<const InstanceView> instances,
                                              RouteState& state, Time) {
  std::vector<int64_t>& chosen = state.instances;
  const auto rank = [&](size_t i) { return std::pair(instances[i].outstanding, chosen[i]); };
  std::optional<size_t> best;
  int64_t latest = 0;
  for (size_t i = 0; i < instances.size(); ++i) {
    if (instances[i].revision != request.revision) continue;
    latest = std::max(latest, chosen[i]);
    if (instances[i].credit > 0 && (!best || rank(i) < rank(*best))) best = i;
  }
  if (best) chosen[*best] = latest + 1;
  return best;
}

}  // namespace sluice::policy
