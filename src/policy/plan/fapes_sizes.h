// The numbers of devices that FaPES tries for a job, with what the model expects of each on an
// empty cluster: bounds, optima and prices are relative to these. Pure.
#pragma once

#include <vector>

#include "policy/plan/deal.h"

namespace sluice::policy {

struct FapesSizes {
  // Ascending, up to the one with the most throughput. Empty: the job can never run here.
  std::vector<int> sizes;
  double throughput = 0;      // the most, samples per second
  double goodput = 0;         // the most
  int best = 0;               // the size with the most goodput
  double device_seconds = 0;  // of a sample, at the most efficient size
  double alone = 0;           // throughput of one device, or of the fewest ÷ their number
};

// Sizes go by the granule (FaPES: two devices under one switch), beyond 16 of these by a quarter. A
// job's least and most workers are sizes too. `node` is the number of devices of the largest node:
// up to so many workers are on one node. It also bounds the granule. A job that was never measured
// has its least size alone: FaPES profiles a job on two devices before it plans it.
FapesSizes fapes_sizes(const Contender& job, int granule, int node);

// H and U of reading A2: the least and the most seconds that any of the jobs needs for what is
// left, the least at its fastest size and the most on one device.
struct FapesBounds {
  double least = 0, most = 0;
};
FapesBounds fapes_bounds(const std::vector<const Contender*>& jobs,
                         const std::vector<const FapesSizes*>& sizes);

}  // namespace sluice::policy
