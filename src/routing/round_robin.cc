// Each choice numbers its instance one above the rest; the largest number marks the one that was
// chosen last. A position instead of numbers would shift when instances join or leave. If the last
// one left, the one chosen before it marks the place, and those between the two had no credit.
#include "routing/route.h"

namespace sluice::policy {

std::optional<size_t> route_round_robin(const RequestView& request,
                                        std::span<const InstanceView> instances, RouteState& state,
                                        Time) {
  std::vector<int64_t>& chosen = state.instances;
  int64_t latest = 0;
  std::optional<size_t> first, next;  // with credit: of all, and of those behind the latest
  for (size_t i = 0; i < instances.size(); ++i) {
    if (instances[i].revision != request.revision) continue;
    const bool later = chosen[i] > latest;
    if (later) latest = chosen[i], next.reset();
    if (instances[i].credit <= 0) continue;
    if (!first) first = i;
    if (!next && !later) next = i;
  }
  if (!next) next = first;
  if (next) chosen[*next] = latest + 1;
  return next;
}

}  // namespace sluice::policy
