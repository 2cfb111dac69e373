// The processes of a slice as the kernel groups them: a group of ours (cgroup.h), or the containers
// of a Pod (pod_group.h). An interface; not thread-safe.
#pragma once

#include <sys/types.h>

#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace sluice::node {

class SliceGroup {
 public:
  virtual ~SliceGroup() = default;

  virtual Result<void> set_cores(const std::vector<int>& cores) = 0;
  // At most `millicores` over the long run; 0 removes the quota. Writes only what changes: each
  // write gives the group the runtime of a new period (quota_writes.h).
  virtual Result<void> set_quota(double millicores, Nanos period) = 0;
  // Returns whether the kernel has killed a process of the group at its memory limit.
  virtual bool killed_by_memory_limit() const = 0;
  virtual std::vector<pid_t> processes() const = 0;
  // Signals the processes in it, and no later process that reuses a number.
  virtual void signal(int number) const = 0;
};

}  // namespace sluice::node
