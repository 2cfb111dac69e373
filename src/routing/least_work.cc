#include "routing/route.h"

namespace sluice::policy {
namespace {

// a would be done before b: (outstanding + 1) ÷ capability, compared without dividing, so that
// instances of capability 0 compare too.
bool sooner(const InstanceView& a, const InstanceView& b) {
  const double left = (a.outstanding + 1) * b.capability;
  const double right = (b.outstanding + 1) * a.capability;
  return left != right ? left < right : a.capability > b.capability;
}

}  // namespace

std::optional<size_t> route_least_work(const RequestView& request,
                                       std::span<const InstanceView> instances, RouteState&, Time) {
  std::optional<size_t> best;
  for (size_t i = 0; i < instances.size(); ++i) {
    if (instances[i].revision != request.revision || instances[i].credit <= 0) continue;
    if (!best || sooner(instances[i], instances[*best])) best = i;
  }
  return best;
}

}  // namespace sluice::policy
