// shortage: why no device takes another instance: each device's free space, and which functions
// hold the rest. Pure.
#pragma once

#include <string>

#include "model/predictor.h"
#include "policy/scale/cluster_plan.h"

namespace sluice::policy {

// Returns "of 4 devices none has room for `what`: …", with the numbers behind it. The rule is
// cluster-full. `memory` is the instance's need.
Reason shortage(const ClusterPlan& plan, const Predictor& predictor, const std::string& what,
                Bytes memory);

}  // namespace sluice::policy
