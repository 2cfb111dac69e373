// Which running jobs FaPES plans anew with those that wait (SoCC '24, §5.1). Pure.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/clock.h"

namespace sluice::policy {

// A job's achievement is the mean goodput over the rounds of its plan ÷ its best goodput: measured
// in the past, predicted for the rest (reading A12). Within [0, 1].
double achievement(double past_goodput, double past_seconds, double coming_goodput,
                   double coming_seconds, double best_goodput);

// A job as the filter sees it.
struct FilterJob {
  int devices = 0;         // that it would give back; 0: it waits
  double achievement = 0;  // of its present plan
  bool ends_soon = false;  // by the end of the next round
  Nanos waited{0};
  int least = 1;  // devices
  int most = 1;   // beyond which it achieves no more
  // Returns the achievement expected of so many devices, on as few nodes as possible.
  std::function<double(int)> expected;
};

// Running jobs give back their devices by achievement, the lowest first, until all that share these
// and the free ones evenly would achieve more, on average, than those that gave back do now
// (reading A13). Jobs that wait count there alone. Returns these running jobs, as indices, the
// lowest achievement first; none, if nothing is better.
//
// Another reading takes none where the free devices suffice for those that wait. Then a job that
// began on a full cluster stays small beside idle devices, as a new job waits in most rounds: on
// the list like FaPES's testbed of bench/jct, the mean completion time is 5,885 s, and 3,714 s so.
//
// A job that ends soon gives nothing back, since it would end later.
std::vector<size_t> fapes_filter(std::span<const FilterJob> jobs, int free, int granule);

}  // namespace sluice::policy
