// Slices of instances that are Pods. Their containers are found, never made.
#include <algorithm>
#include <iterator>
#include <utility>

#include "node/enforcer.h"

namespace sluice::node {
namespace {

// The first process of a container began before its others.
std::optional<ProcessIdentity> oldest_of(const std::vector<pid_t>& pids) {
  std::optional<ProcessIdentity> oldest;
  for (const pid_t pid : pids)
    if (const auto process = identity_of(pid);
        process && (!oldest || process->start_time < oldest->start_time))
      oldest = process;
  return oldest;
}

}  // namespace

void Enforcer::hold_pod(Client& c, const std::string& uid) {
  if (c.pod_uid != uid) {
    const std::lock_guard lock(mutex_);
    c.pod_uid = uid;
    c.joined = {};
  }
  c.pod->begin(uid);
  c.pod->hold();
  if (c.pod_counter != nullptr && !c.starting) c.pod_counter->begin(c.pod->usage_file());
}

// A container's group may hold processes of the runtime for a moment, before its program is there.
// So a container counts only once the kubelet says that it has started, or once a process of it has
// asked for a permit.
std::optional<ProcessIdentity> Enforcer::find_in_pod(const InstanceRecord& r,
                                                     const std::vector<std::string>& containers) {
  Client& c = clients_.at(r.instance.id).front();
  hold_pod(c, r.pod);
  std::vector<pid_t> pids;
  for (const std::string& id : containers)
    std::ranges::copy(c.pod->processes_of(id), std::back_inserter(pids));
  if (const auto first = oldest_of(pids)) return first;
  ProcessIdentity joined;
  {
    const std::lock_guard lock(mutex_);
    joined = c.joined;
  }
  if (joined.pid == 0 || identity_of(joined.pid) != joined) return std::nullopt;
  const std::string container = container_of(joined.pid, r.pod).value_or("");
  const auto first = oldest_of(c.pod->processes_of(container));
  return first ? first : joined;
}

void Enforcer::has_started(const InstanceRecord& r) {
  Client& c = clients_.at(r.instance.id).front();
  if (!std::exchange(c.starting, false)) return;
  (void)limit(c, r.instance.parts.front());  // a Pod refuses nothing (pod_group.h)
  hold_pod(c, r.pod);
}

void Enforcer::hold_pods() {
  for (auto& [id, clients] : clients_)
    for (Client& c : clients)
      if (c.pod && !c.pod_uid.empty()) hold_pod(c, c.pod_uid);
}

Result<void> Enforcer::place_in_pod(Client& c, const InstanceRecord& r) {
  hold_pod(c, r.pod);
  c.pod->choose(container_of(c.process.pid, r.pod).value_or(""));
  return {};
}

}  // namespace sluice::node
