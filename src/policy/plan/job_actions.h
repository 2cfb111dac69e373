// job_actions: what leads from a snapshot to a JobPlan, each step with its reason. Pure.
#pragma once

#include <map>
#include <vector>

#include "policy/plan/job_plan.h"

namespace sluice::policy {

// Returns the stops, then the starts. A worker whose place is still held by one that leaves is
// started by a later decision; and so are all of a job that would have fewer than its least. A job
// without workers is reported as unmet. `leaves` has the reasons of workers that cannot stay.
std::vector<Action> job_actions(const Input& input, const std::vector<Job>& jobs,
                                const std::vector<Site>& sites, const std::vector<JobRules>& rules,
                                const JobPlan& plan, const std::map<InstanceId, Reason>& leaves);

}  // namespace sluice::policy
