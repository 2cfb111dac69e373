// The process at the other end of a local socket, as the kernel identifies it.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "process/process_identity.h"

namespace sluice::node {

struct Peer {
  ProcessIdentity process;
  uid_t uid = 0;  // at connect()
  Fd pidfd;
  std::string slice;  // the slice that owns the socket (permit_server.h); empty: the common one
};

// Returns the process that connected, by SO_PEERPIDFD if the kernel has it (6.5). Before, a pid may
// have been reused since, so a caller that maps the peer to a client must also compare its start
// time. Returns kDenied if the process is not visible from here (pid 0), or has ended.
Result<Peer> identify_peer(int socket);

// The same for a process without a number here, because its pid namespace is not below ours. Its
// pid is 0, and its pidfd's inode stands in place of a start time. Returns kDenied on kernels where
// the inode is not unique (before 6.9).
Result<Peer> identify_unseen_peer(int socket);

// Returns its pid alone, without the checks; 0 if it cannot be seen.
pid_t peer_pid(int socket);

// Returns whether the process of a pidfd has ended.
bool has_ended(int pidfd);

}  // namespace sluice::node
