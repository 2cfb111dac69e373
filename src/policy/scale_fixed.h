// scale_fixed: the slice in the file, never changed. min_replicas instances are kept and replaced
// when they are gone; the rate is not looked at. A file without a slice gets whole devices.
#pragma once

#include "policy/bundle.h"

namespace sluice::policy {

std::vector<Action> scale_fixed(Turn& turn);

}  // namespace sluice::policy
