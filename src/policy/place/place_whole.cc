#include "policy/place/place_whole.h"

namespace sluice::policy {

std::vector<Spot> place_whole(Layouts& layouts, const PlaceRequest& request) {
  std::vector<Spot> spots = emptiest_fit(layouts, request);
  for (const Spot& spot : spots)
    if (spot.device->used()) return {};
  return spots;
}

}  // namespace sluice::policy
