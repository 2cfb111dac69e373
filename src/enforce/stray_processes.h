// Processes of a slice that have left its cgroup, as a program that runs as root can by one write.
// The kernel then neither limits such a process nor counts its use for the slice. The platform does
// not move it back: it could leave again at once.
//
// Found by polling: a process that ends between two polls is missed, and so is one that leaves
// before a poll has seen it and whose parents have ended. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <map>
#include <vector>

#include "enforce/cgroup.h"
#include "enforce/meter_cpu.h"
#include "process/process_identity.h"

namespace sluice::node {

class StrayProcesses {
 public:
  // Polls. Returns the processes that have left `group` since the last poll. `family`: processes of
  // the slice, which need not be in the group any more.
  std::vector<ProcessIdentity> poll(const Cgroup& group, const std::vector<pid_t>& family);

  // Returns those that are alive, and outside the group in at least one hierarchy.
  const std::map<pid_t, ProcessIdentity>& outside() const { return outside_; }
  // Returns their CPU time since they were found, cumulative.
  Nanos used() { return counter_.read(); }

 private:
  std::map<pid_t, ProcessIdentity> known_, outside_;
  ProcessCounter counter_;
};

}  // namespace sluice::node
