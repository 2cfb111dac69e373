#include "policy/place/place_efficiency.h"

#include "policy/place/offers.h"

namespace sluice::policy {

std::vector<Spot> place_efficiency(Layouts& layouts, const PlaceRequest& request) {
  return first_offered(layouts, request, Offers::Order::kFullestFirst);
}

}  // namespace sluice::policy
