#include "policy/place_whole.h"

namespace sluice::policy {

std::vector<Spot> place_whole(Layouts& layouts, const PlaceRequest& request) {
  std::vector<Spot> spots = first_fit(layouts, request, DeviceOrder::kEmptiestFirst);
  for (const Spot& spot : spots)
    if (spot.device->used()) return {};
  return spots;
}

}  // namespace sluice::policy
