// Addresses at which our processes and their users meet, TCP or unix, and sockets that listen
// there.
//
// Values and free functions: no state, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace sluice::wire {

// "unix:/path", "/path", "host:port" or "port" (then 127.0.0.1).
struct Endpoint {
  std::string path;  // unix, when not empty
  std::string host;
  uint16_t port = 0;  // to listen on: 0 is any free port

  bool operator==(const Endpoint&) const = default;
};
Result<Endpoint> parse_endpoint(std::string_view text);
std::string to_string(const Endpoint&);

// Returns a listening stream socket. For a unix path it replaces the file of a dead owner, with
// mode `mode`. Returns kConflict if another process listens there.
Result<Fd> listen_on(const Endpoint&, int mode = 0600, int backlog = 1024);

// Returns where a listening socket can be reached, with the port that the kernel chose.
Result<Endpoint> bound_to(const Fd& listening);

}  // namespace sluice::wire
