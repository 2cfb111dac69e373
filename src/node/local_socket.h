// A SOCK_SEQPACKET socket in the file system to which any process of the machine may come; who it
// is says peer.h.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace sluice::node {

// Made anew; mode 0666, never blocks. Errors say `what` it is for.
Result<Fd> listen_at(const std::string& path, const std::string& what);

}  // namespace sluice::node
