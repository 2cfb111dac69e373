// Where our processes and their users meet: a TCP or a unix address, and a socket that listens
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
  uint16_t port = 0;  // to listen on: 0 is any that is free

  bool operator==(const Endpoint&) const = default;
};
Result<Endpoint> parse_endpoint(std::string_view text);
std::string to_string(const Endpoint&);

// A listening stream socket; for a unix path, what is left of a dead owner is replaced, mode
// `mode`. kConflict: somebody listens there.
Result<Fd> listen_on(const Endpoint&, int mode = 0600, int backlog = 1024);

// Where a listening socket can be reached, its port as the kernel chose it.
Result<Endpoint> bound_to(const Fd& listening);

}  // namespace sluice::wire
