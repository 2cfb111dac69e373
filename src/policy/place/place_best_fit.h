// place_best_fit: of all free rectangles that are large enough the one that leaves the least of its
// area (SMIF's best fit); of equal ones the device with the least memory left, then by id. Several
// parts go to several devices. Memory is never over-committed.
#pragma once

#include "policy/place/place.h"

namespace sluice::policy {

std::vector<Spot> place_best_fit(Layouts& layouts, const PlaceRequest& request);

}  // namespace sluice::policy
