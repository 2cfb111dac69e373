// place_dilu: Dilu's Algorithm 1 (ASPLOS '25, §3.3). Each part goes to a device that leaves the
// least fragment
//
//   score = α · (1 − Σ request) + β · (1 − Σ memory ÷ M),  α = 0.6, β = 0.4 (published code)
//
// of those where, the part included, Σ request ≤ Ω = 1, Σ limit ≤ γ = 1.5 and Σ memory ≤ M. First
// among devices with workload affinity, then among the others in use, then among unused ones.
// Requests and limits are areas: sm × share of time.
//
// Readings. Neighbours are functions that share a device. A device has affinity to a function if it
// hosts a neighbour of the function's instances, and no instance of the function itself: so
// training workers meet the same neighbours everywhere, and the peaks of one function fall on
// several devices. Between unused devices the score decides too. Ties by id.
#pragma once

#include <utility>
#include <vector>

#include "policy/place/place.h"

namespace sluice::policy {

std::vector<Spot> place_dilu(Layouts& layouts, const PlaceRequest& request);

// For a model that no single device has the memory for: the fewest devices that together have it,
// those with the most free memory first (worst fit), so that it has the fewest pipeline stages.
// Returns their spots, and the memory of each part: as equal as the devices allow, and
// request.memory in all. Returns nothing if all devices together lack the memory. `sm` and `quota`
// are of each part, `parts` means nothing.
//
// No policy asks for it yet (docs/design/parts.md).
std::vector<std::pair<Spot, Bytes>> place_in_stages(Layouts& layouts, const PlaceRequest& request);

}  // namespace sluice::policy
