// Who is at the other end of a local socket, as the kernel says.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "node/process_identity.h"

namespace sluice::node {

struct Peer {
  ProcessIdentity process;
  uid_t uid = 0;  // at connect()
  Fd pidfd;
  std::string slice;  // whose own socket it came to (permit_server.h); empty: everybody's
};

// The process that connected. By SO_PEERPIDFD where the kernel has it (6.5); before, a pid may have
// been reused since, so that whoever maps the peer to a client compares its start time as well.
// kDenied: it is not visible from here (pid 0), or has ended.
Result<Peer> identify_peer(int socket);

// The same of a process that has no number here, since it lives in a pid namespace that is not
// below ours: its pid is 0, and what tells it from others, in place of a start time, the inode of
// its pidfd. kDenied on kernels where that is not its own (before 6.9).
Result<Peer> identify_unseen_peer(int socket);

// Its pid alone, without the checks; 0 where it cannot be seen.
pid_t peer_pid(int socket);

// Whether the process of a pidfd has ended.
bool has_ended(int pidfd);

}  // namespace sluice::node
