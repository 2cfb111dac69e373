// unmeasured: how a revision keeps up whose times were never measured, by what the gateway and its
// instances show. Pure.
//
// An instance does answered ÷ use per second. Its use is the larger of two parts, over the last 10
// seconds: of its places (requests that it may have at once), and of its quota's limit.
#pragma once

#include <string>

#include "policy/explain.h"
#include "policy/scale/cluster_plan.h"
#include "policy/scale/demand.h"

namespace sluice::policy {

inline constexpr Nanos kMeasuredOver = Seconds(10);  // instances, and violations

struct Pace {
  int count = 0;         // instances that count (ClusterPlan::counted)
  int ready = 0;         // of them
  Time last_start{};     // of them
  double each = 0;       // inferences per second of one, the mean; 0: none answered lately
  std::string behind{};  // how the function falls behind, a clause; empty: it keeps up

  bool settled() const { return ready == count; }
  double capacity() const { return count * each; }
  // Returns "2 instances do about 6.6/s".
  std::string does_text() const;
  Numbers numbers(const Demand& demand) const;
};

// A function falls behind while it violates its objective, or more requests wait than its ready
// instances have places. Without a ready instance it does not.
Pace pace_of(const ClusterPlan& plan, const Demand& demand);

// A reason's last sentence where no times are known: what would help.
inline constexpr char kNeverMeasured[] =
    " Its times were never measured: sluice profile lets quotas be chosen.";

// Reports an unmeasured revision that falls behind, for a policy that cannot scale it.
void report_unmeasured(ClusterPlan& plan, const Demand& demand);

}  // namespace sluice::policy
