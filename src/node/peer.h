// Who is at the other end of a local socket, as the kernel says.
#pragma once

#include <sys/types.h>

#include "base/fd.h"
#include "base/result.h"
#include "node/process_identity.h"

namespace sluice::node {

struct Peer {
  ProcessIdentity process;
  uid_t uid = 0;  // at connect()
  Fd pidfd;
};

// The process that connected. By SO_PEERPIDFD where the kernel has it (6.5); before, a pid may have
// been reused since, so that whoever maps the peer to a client compares its start time as well.
// kDenied: it is not visible from here (pid 0), or has ended.
Result<Peer> identify_peer(int socket);

// Its pid alone, without the checks; 0 where it cannot be seen.
pid_t peer_pid(int socket);

// Whether the process of a pidfd has ended.
bool has_ended(int pidfd);

}  // namespace sluice::node
