// plan_elastic: gives jobs what inference leaves of the devices, by the goodput that each device
// adds.
//
// A worker's slice is a whole device with a small request (`floor`) and the whole window as its
// limit. So it always progresses, borrows all time that inference does not use, and gives it back
// within a window, by the device's arbiter. A job has one worker a device.
//
//   1. A worker leaves where it cannot stay: its device is cordoned or inference needs it.
//   2. A job without its least workers is given them on idle devices, or has none.
//   3. If a job still waits, all devices are dealt anew: to each priority, the highest first, every
//      job's least in order of submission, then device after device to the largest gain in goodput.
//   4. Else jobs grow onto idle devices, or all are dealt anew, if the jobs that change then do
//      better by `better_by`. A job that changed within `calm` stays as it is.
//   5. A worker that has been slower than `least_speed` for `calm` leaves its job if that keeps its
//      least, as the slowest holds up the others.
//
// job_plan.h defines a worker's speed and a job's goodput. Gains are relative to one
// worker on a free device, so that jobs compare. Scaling linearly is assumed of a job that was not
// measured. A device that inference needed takes no worker for `calm`, as the inference policy may
// decide less often than the plan.
#pragma once

#include "model/action.h"
#include "policy/input.h"

namespace sluice::policy {

struct ElasticSettings {
  Share floor{50};         // a worker's request
  Share ceiling = kWhole;  // and its limit, not below it
  Share least_gain{50};    // of one worker's goodput
  Share better_by{100};    // of the goodput of the jobs that change
  Share least_speed{100};  // of a free device's
  Nanos calm = Seconds(30);

  static std::span<const Setting<ElasticSettings>> settings();
};
inline constexpr int kElasticMemory = 1;  // the memory's version

std::vector<Action> plan_elastic(Input& input);

}  // namespace sluice::policy
