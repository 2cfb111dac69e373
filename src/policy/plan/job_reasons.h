// The reasons of plans for training jobs, in words and numbers. Pure.
#pragma once

#include <vector>

#include "policy/plan/jobs.h"

namespace sluice::policy {

// What a plan gives a job.
struct Planned {
  int workers = 0;
  double relative = 0;  // its goodput over that of one worker on a free device
  double speed = 0;     // of the slowest worker
};
// job-starts, job-grows or job-moves, by the workers that the job had. `idle` is the device's
// share.
Reason worker_starts(const Job& job, const Device& device, double idle, const Planned& planned);
// job-shrinks or job-moves; below-least if it is to have none.
Reason worker_leaves(const Job& job, const Device& device, const Planned& planned);

Reason job_yields(const Device& device, double lost);
Reason worker_on_cordoned(const Device& device);
Reason second_worker(const Device& device);
Reason slow_worker(const Device& device, double speed, Nanos since);

// job-waits: it has no workers, and why the devices take too few.
Reason job_waits(const Job& job, const std::vector<Site>& sites);
Reason job_waits_for_room(const Job& job, int missing);

}  // namespace sluice::policy
