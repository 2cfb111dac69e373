// A model store in a process of its own (sluice-store): for memory that dies with who made it, and
// so that a driver's faults are not the node daemon's. Its keeper hands it connections over a
// SOCK_SEQPACKET socket: a packet each, of the owner's name and the connected socket. When the
// keeper is gone, those who have a connection are served on; the store ends with the last of them.
#pragma once

#include <string_view>

#include "base/fd.h"
#include "base/result.h"
#include "node/store_server.h"

namespace sluice::node {

inline constexpr size_t kLongestOwner = 255;

// The keeper's part. kInvalid: no name, or too long a one; kUnavailable: the store is gone.
Result<void> hand_to_store(int control, std::string_view owner, Fd socket);

// The store's part. Returns when the keeper and all connections are gone.
void serve_store(StoreServer& server, Fd control);

}  // namespace sluice::node
