// plan_tiresias: discretised least attained service with two queues (Tiresias, NSDI '19), as the
// Pollux artifact reads it. A job has all the devices that its user asks for, or none: mostDevices
// if that is stated, else leastDevices. It may be preempted.
//
//   1. A job begins in the first queue. Once it has had `threshold` of device time, it goes to the
//      end of the second one. So short jobs finish before long ones, whose length is not known.
//   2. Each round the first queue is served in order of submission, then the second one. A job that
//      does not fit is passed over. Devices of a job that is not served are taken from it.
//   3. A job of the second queue that has waited `promote` times as long as it ran goes back to the
//      first one, and what it had is forgotten. The artifact has this off.
#pragma once

#include "policy/plan/deal.h"

namespace sluice::policy {

struct TiresiasSettings {
  Nanos round = Seconds(60);
  Nanos threshold = std::chrono::hours(16);
  double promote = 0;  // 0: never

  static std::span<const Setting<TiresiasSettings>> settings();
};

// Returns how many workers each job has. Remembers which jobs are in the second queue.
std::vector<int> tiresias(Table& table, const TiresiasSettings& settings);

std::vector<Action> plan_tiresias(Input& input);

}  // namespace sluice::policy
