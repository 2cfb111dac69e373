// A SOCK_SEQPACKET socket in the file system, to which any process of the machine may connect;
// peer.h identifies it.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace sluice::node {

// Makes the socket anew; mode 0666, never blocks. Errors name its purpose `what`.
Result<Fd> listen_at(const std::string& path, const std::string& what);

}  // namespace sluice::node
