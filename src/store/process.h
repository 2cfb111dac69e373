// A model store in a process of its own (sluice-store), for memory that dies with its process, and
// to keep a driver's faults out of the node daemon. Its keeper hands it connections over a
// SOCK_SEQPACKET socket: each packet carries the owner's name and the connected socket. After the
// keeper's end the store serves its open connections, and ends with the last of them.
#pragma once

#include <string_view>

#include "base/fd.h"
#include "base/result.h"
#include "store/server.h"

namespace sluice::node {

inline constexpr size_t kLongestOwner = 255;

// The keeper's part. Returns kInvalid for a missing or too long name, kUnavailable if the store is
// gone.
Result<void> hand_to_store(int control, std::string_view owner, Fd socket);

// The store's part. Returns when the keeper and all connections are gone.
void serve_store(StoreServer& server, Fd control);

}  // namespace sluice::node
