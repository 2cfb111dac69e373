// What of a platform still runs, as the kernel knows it and the stored state may not: processes
// in the platform's cgroups, and those that hold the listening sockets of its instances. Where
// there are no cgroups, a foreign program (`sluice run`) is not found. Free functions; any
// thread.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>

#include "node/cgroup.h"
#include "node/registry.h"

namespace sluice::node {

using Survivors = std::map<InstanceId, std::set<pid_t>>;

// `sockets`: the folder in which each instance listens, at ID.sock.
Survivors find_survivors(const Cgroups& cgroups, const std::string& sockets);

// The state from which a daemon of this boot may start. An error where the file cannot be read, or
// where instances run that it does not know: starting without them would promise their shares
// again. The error lists what runs, and says what to do.
Result<NodeState> state_to_start_from(const Registry& registry, const std::string& boot,
                                      Survivors survivors);

}  // namespace sluice::node
