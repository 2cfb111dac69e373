// plan_elastic: gives jobs what inference leaves of the devices, by the goodput that each device
// adds.
//
// A worker's slice is a whole device with a small request (`floor`) and the whole window as its
// limit. So it always progresses, borrows all time that inference does not use, and gives it back
// within a window, by the device's arbiter. A job has one worker a device.
//
//   1. A worker leaves where it cannot stay: its device is cordoned or inference needs it.
//   2. A job without its least workers is given them on idle devices, or has none.
//   3. The sizes of all jobs of a priority are those of the largest Σ w·log(goodput), as
//      job_weights.h and job_sizes.h have it. What a change stops counts against it, over the time
//      that it lasts. A job that changed within `calm` stays as it is, unless another waits.
//   4. Jobs of other sizes are placed anew, on as few nodes as possible. A job of the same size
//      moves if other devices are faster by more than that costs.
//   5. A job that still has none has its least from jobs with more than theirs, or shares a device.
//   6. A worker that has been slower than `least_speed` for `calm` leaves its job if that keeps its
//      least, as the slowest holds up the others.
//
// job_plan.h defines a worker's speed and a job's goodput, which is relative to one worker on a
// free device. A job that is to be measured first has at most two workers, or its least, until it
// is; it then grows within `calm`, too. Of one that was not measured, and is not to be, linear
// scaling is assumed. A device that inference needed takes no worker for `calm`, as the inference
// policy may decide less often than the plan.
#pragma once

#include "model/action.h"
#include "policy/input.h"

namespace sluice::policy {

struct ElasticSettings {
  Share floor{50};         // a worker's request
  Share ceiling = kWhole;  // and its limit, not below it
  Share least_gain{10};    // of one worker's goodput
  Share better_by{100};    // of the goodput of the jobs that change
  Share least_speed{100};  // of a free device's
  Nanos calm = Seconds(30);
  Share short_first{500};  // e, in job_weights.h

  static std::span<const Setting<ElasticSettings>> settings();
};
inline constexpr int kElasticMemory = 1;  // the memory's version

std::vector<Action> plan_elastic(Input& input);

}  // namespace sluice::policy
