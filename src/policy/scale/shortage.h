// shortage: why no device takes another instance: each device's free space, and which functions
// hold the rest. Pure.
#pragma once

#include <string>

#include "policy/explain.h"
#include "policy/scale/cluster_plan.h"

namespace sluice::policy {

// Returns "`lead`of 4 devices none has room for `what`: …", with the numbers behind it after the
// given ones. The rule is cluster-full. `memory` is the instance's need. `by_profile`: whose
// revision is placed on types of devices alone on which it was measured; nullptr: on any.
Reason shortage(const ClusterPlan& plan, std::string lead, const std::string& what, Bytes memory,
                Numbers numbers = {}, const Demand* by_profile = nullptr);

}  // namespace sluice::policy
