// scale_fixed: the slice in the file, never changed. Keeps min_replicas instances and replaces
// ended ones, whatever the rate. A file without a slice gets whole devices.
#pragma once

#include "model/action.h"
#include "policy/input.h"

namespace sluice::policy {

std::vector<Action> scale_fixed(Input& input);

}  // namespace sluice::policy
