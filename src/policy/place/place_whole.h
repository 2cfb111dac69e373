// place_whole: a device of its own, whatever the slice. For bundles that share nothing.
#pragma once

#include "policy/place/place.h"

namespace sluice::policy {

std::vector<Spot> place_whole(Layouts& layouts, const PlaceRequest& request);

}  // namespace sluice::policy
