// scale_hpa: Kubernetes' Horizontal Pod Autoscaler over concurrency, the baseline of most clusters.
// Instances have the slice of the function's file (without one: whole devices). Their number keeps
// each at the target of requests at once:
//
//   wanted = current                          if |concurrency ÷ (current × target) − 1| ≤ tolerance
//          = ⌈concurrency ÷ target⌉            else, at most max(2 × current, current + 4)
//
// Counted anew every 15 s (a dead instance is replaced at once), and never fewer than the largest
// number wanted within the stabilization window, which it remembers (autoscaling/v2:
// scaleDown.stabilizationWindowSeconds). Without that memory the window begins anew at the current
// number.
#pragma once

#include "model/action.h"
#include "policy/input.h"

namespace sluice::policy {

struct HpaSettings {
  double target_utilisation = 0.8;     // of an instance's maximum, if no file says
  double tolerance = 0.1;              // of the target, within which nothing changes
  Nanos stabilization = Seconds(300);  // in which the largest number wanted counts
  static std::span<const Setting<HpaSettings>> settings();
};

std::vector<Action> scale_hpa(Input& input);

}  // namespace sluice::policy
