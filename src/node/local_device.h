// A device in its own node's view. A plain value.
#pragma once

#include <vector>

#include "model/device.h"

namespace sluice::node {

struct LocalDevice {
  Device device;
  std::vector<int> cores;  // a CPU's cpuset; empty: a share of a core, floating over the pool

  bool operator==(const LocalDevice&) const = default;
};

}  // namespace sluice::node
