#include "enforce/stray_processes.h"

#include <algorithm>
#include <optional>

namespace sluice::node {

std::vector<ProcessIdentity> StrayProcesses::poll(const Cgroup& group,
                                                  const std::vector<pid_t>& family) {
  const auto learn = [&](pid_t pid) {
    if (const std::optional<ProcessIdentity> process = identity_of(pid)) known_[pid] = *process;
  };
  std::ranges::for_each(group.processes(), learn);
  std::ranges::for_each(family, learn);

  std::vector<ProcessIdentity> left;
  std::erase_if(known_, [](const auto& k) { return identity_of(k.first) != k.second; });
  std::erase_if(outside_, [&](const auto& o) {
    const auto known = known_.find(o.first);
    const bool still = known != known_.end() && known->second == o.second && !group.holds(o.first);
    if (!still) counter_.remove_process(o.second);
    return !still;
  });
  for (const auto& [pid, process] : known_) {
    // An exiting process reports no group: its flag is read after the group.
    if (group.holds(pid) || identity_of(pid) != process || is_exiting(pid)) continue;
    if (!outside_.try_emplace(pid, process).second) continue;
    counter_.add_process(process);
    left.push_back(process);
  }
  return left;
}

}  // namespace sluice::node
