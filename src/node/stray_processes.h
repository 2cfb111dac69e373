// Processes of a slice that have left its cgroup, as a program that runs as root can by one write.
// The kernel then neither holds such a process nor counts its use for the slice. Nothing puts it
// back: it could leave again at once.
//
// Found by polling: a process that ends between two polls is missed, and so is one that leaves
// before a poll has seen it and whose parents have ended. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <map>
#include <vector>

#include "node/cgroup.h"
#include "node/meter_cpu.h"
#include "node/process_identity.h"

namespace sluice::node {

class StrayProcesses {
 public:
  // Polls. Returns what has left `group` since the last poll. `family`: processes of the slice,
  // which need not be in the group any more.
  std::vector<ProcessIdentity> poll(const Cgroup& group, const std::vector<pid_t>& family);

  // Alive, and outside the group in a hierarchy at least.
  const std::map<pid_t, ProcessIdentity>& outside() const { return outside_; }
  // CPU time of theirs since they were found, cumulative.
  Nanos used() { return counter_.read(); }

 private:
  std::map<pid_t, ProcessIdentity> known_, outside_;
  ProcessCounter counter_;
};

}  // namespace sluice::node
