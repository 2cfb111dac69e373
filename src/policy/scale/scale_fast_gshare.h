// scale_fast_gshare: FaST-GShare's heuristic autoscaling (its Algorithm 1) over profiled
// configurations p = (SM partition S, time quota Q, throughput T):
//
//   RPR(p) = T ÷ (S·Q)        throughput per resource
//   ΔRPS   = R − Σ T(i)       R the rate to be ready for; instances that start count
//
//   ΔRPS > 0: ⌊ΔRPS ÷ T_eff⌋ instances of p_eff, which has the highest RPR; for the rest r one of
//             p_ideal, which has the least T ≥ r
//   ΔRPS < 0: instances leave by rising RPR while ΔRPS + T(front) ≤ 0
//
// Readings. A configuration counts only if its batches are in time. Of those within 1 % of the
// highest RPR, p_eff is the one with the highest T: fewer instances do the same. Where a device for
// p_eff or p_ideal is missing, the next best configuration with one is taken. The loop downwards
// ends at the first instance that does not fit (as printed it never ends), and at minReplicas; with
// minReplicas 0 the last instance leaves after scaleToZeroAfter without a request. A gap of at most
// `slack` starts nothing.
//
// An instance requests Q, and may borrow what others leave idle.
#pragma once

#include <span>
#include <vector>

#include "model/action.h"
#include "policy/input.h"

namespace sluice::policy {

// The defaults are the paper's, where it has one.
struct FastGshareSettings {
  double headroom = 1;      // R = headroom × the measured rate
  double slo_fraction = 1;  // of the SLO: the longest that a configuration's batches may take
  Share quota_step{200};    // the profiler's sampling points
  bool borrow = true;       // limit = whole window; else limit = request
  double slack = 0.02;      // part of the capacity
  static std::span<const Setting<FastGshareSettings>> settings();
};

// A configuration of one revision on one type of device.
struct Profiled {
  const Device* type = nullptr;
  Share sm, quota;
  int batch = 1;
  double throughput = 0;  // inferences per second

  double per_resource() const { return throughput / (sm.fraction() * quota.fraction()); }
};

// p_eff; nullptr: there is none.
const Profiled* most_efficient(std::span<const Profiled> profile);
// p_ideal: the least throughput of at least `rest`, of equal ones the least sm × quota; nullptr: no
// configuration covers it.
const Profiled* least_sufficient(std::span<const Profiled> profile, double rest);

std::vector<Action> scale_fast_gshare(Input& input);

}  // namespace sluice::policy
