// choose_slice: which slice a new instance gets, and on which device: steps 2 and 3 of HAS-GPU's
// Algorithm 1. Skips devices that are cordoned or lack the memory.
#pragma once

#include <optional>

#include "policy/place/place.h"
#include "policy/scale/capability.h"

namespace sluice::policy {

// Returns how much a quota has to bring where all that is free brings `all`: what is needed, else
// all. Ours, not the paper's: nearly all, for an instance that may borrow; a server whose host is
// the slower one does no more with a larger request.
inline double worth_having(double needed, double all, const Sizing& sizing) {
  constexpr double kNearly = 0.995;
  if (all >= needed) return needed;
  return sizing.borrow ? kNearly * all : all;
}

struct SliceCandidate {
  Spot spot;
  int batch = 1;
  Share quota;
  double capability = 0;  // inferences per second with that quota
};

// Returns the slice that alone covers `gap` with the fewest quota steps: on the least occupied used
// device that has one, else on a new device (RaPPbyThroughput). Of several on the same device it
// takes the one with the most capability per sm × quota. Returns nothing if no single slice covers
// it.
std::optional<SliceCandidate> covering_slice(Layouts& layouts, const Capabilities& capabilities,
                                             const Sizing& sizing, double gap);

// Returns the most capable free slice; nothing if none is in time.
std::optional<SliceCandidate> most_capable_slice(Layouts& layouts, const Capabilities& capabilities,
                                                 const Sizing& sizing);

}  // namespace sluice::policy
