// In which order FaPES plans its jobs (SoCC '24, §5.2). Pure.
#pragma once

#include <span>
#include <vector>

namespace sluice::policy {

struct FapesClaim {
  int priority = 0;        // of its file
  bool is_new = false;     // it never had workers
  double waited = 0;       // seconds without workers
  double age = 0;          // seconds since it was submitted
  double achievement = 0;  // of its present plan, or of its last one
};

// Returns the claims' indices, first come first, and the higher priority before all else:
//
//   1. jobs that had workers and have waited `pop_up` seconds, the longest waiting first;
//   2. new jobs, the longest waiting first;
//   3. jobs that are planned anew, the higher achievement first (reading A14).
//
// Of equal claims the older job comes first, then the one that comes first in `claims`.
std::vector<size_t> fapes_order(std::span<const FapesClaim> claims, double pop_up);

}  // namespace sluice::policy
