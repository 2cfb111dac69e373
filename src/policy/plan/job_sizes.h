// job_sizes: how many devices each job should have, where all devices are alike. Pure.
//
//   maximise Σ_j value_j(k_j)   with Σ_j k_j ≤ devices,  k_j among the sizes of job j
//
// by dynamic programming over the jobs, which is exact whatever the values' shape: a job may need
// four devices at once to gain anything, or lose by each change. It takes jobs × devices × sizes
// steps.
#pragma once

#include <span>
#include <vector>

namespace sluice::policy {

struct JobSize {
  int devices = 0;
  double value = 0;
};

// Returns for each job the number of one of its sizes; of equal plans one with the smaller sizes,
// listed first. Empty: the jobs do not fit.
std::vector<size_t> best_sizes(std::span<const std::vector<JobSize>> jobs, int devices);

// Returns the sizes that are worth asking for, from `least` to `most`: each up to 8, then steps of
// a quarter; and of these `most`, `now`, and 1, 2, 4, … whole nodes of that many devices.
std::vector<int> sizes_between(int least, int most, int now, int node);

}  // namespace sluice::policy
