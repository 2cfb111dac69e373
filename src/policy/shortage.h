// shortage: why no device takes another instance: what is free where, and which functions hold the
// rest. Pure.
#pragma once

#include <string>

#include "model/predictor.h"
#include "policy/cluster_plan.h"

namespace sluice::policy {

// "of 4 devices none has room for `what`: …", with the numbers behind it. The rule is cluster-full.
// `memory` is what the instance would need.
Reason shortage(const ClusterPlan& plan, const Predictor& predictor, const std::string& what,
                Bytes memory);

}  // namespace sluice::policy
