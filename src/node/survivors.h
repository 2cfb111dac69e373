// The processes of a platform that still run, as the kernel knows them and the stored state may
// not: processes in the platform's cgroups, and those that hold the listening sockets of its
// instances. Without cgroups it does not find foreign programs (`sluice run`), or programs that
// serve on a port. Free functions; any thread.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>

#include "enforce/cgroup.h"
#include "node/registry.h"

namespace sluice::node {

using Survivors = std::map<InstanceId, std::set<pid_t>>;

// `sockets`: the folder in which each instance listens, at ID.sock.
Survivors find_survivors(const Cgroups& cgroups, const std::string& sockets);

// Returns the state from which a daemon of this boot may start. Returns an error if the file cannot
// be read, or if instances run that it does not know: starting without them would reserve their
// shares again. The error lists what runs, and says what to do.
Result<NodeState> state_to_start_from(const Registry& registry, const std::string& boot,
                                      Survivors survivors);

}  // namespace sluice::node
