#include "node/ungated_use.h"

namespace sluice::node {

std::vector<UngatedUse::Use> UngatedUse::take(const std::map<pid_t, DeviceUse>& account,
                                              const std::set<pid_t>& attached, Time now) {
  std::erase_if(processes_, [&](const auto& entry) {
    return !account.contains(entry.first) || attached.contains(entry.first);
  });
  std::vector<Use> taken;
  for (const auto& [pid, use] : account) {
    if (attached.contains(pid)) continue;
    Process& process = processes_.try_emplace(pid, Process{now, now}).first->second;
    if (use.from < process.since || use.until <= process.taken_until) continue;
    process.taken_until = use.until;
    if (use.busy > use.resolution) taken.push_back({pid, use.busy, use.until});
  }
  return taken;
}

}  // namespace sluice::node
