// place_efficiency: INFless's placement. The efficiency of an instance on a device is
//
//   e = throughput ÷ its share ÷ the device's free share afterwards,
//
// so of the devices that take a given share it is the one with the least left: the fullest; of
// equal ones the first by id. Memory is never over-committed.
#pragma once

#include "policy/place/place.h"

namespace sluice::policy {

std::vector<Spot> place_efficiency(Layouts& layouts, const PlaceRequest& request);

}  // namespace sluice::policy
