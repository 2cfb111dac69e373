// What a graph allocates by nodes of its own, as its launch needs it. Any thread.
#pragma once

#include "wire/cuda_abi.h"

namespace sluice::hook {

struct GraphAllocations {
  uint64_t bytes;  // at most; 0: it allocates nothing
  uint64_t left;   // of it, what no node of the graph frees
  int device;
};

// Allocations that a driver has put at the same address, for one is freed before the other begins,
// share their memory, and so count once. A graph that allocates on several devices counts on the
// first.
GraphAllocations allocations_of(CUgraph graph);

}  // namespace sluice::hook
