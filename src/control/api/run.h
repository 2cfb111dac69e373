// The control process: the loop on a timer, and the API, on one thread (serving.h). It is handed
// its ports, whose calls do not wait for a node or gateway, so a GET is answered within 100 ms
// whatever those do.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "control/control.h"

namespace sluice::control {

// Where the API is served, and how.
struct ApiSockets {
  Fd local;           // a listening unix socket, only for its owner
  Fd tcp;             // invalid: none
  std::string token;  // that callers over TCP must bear; not empty if there is such a socket
  std::string home;   // the meaning of "~" in function files
};

// Runs until SIGTERM or SIGINT.
// REQUIRES: `ports` has all of them.
Result<void> run_control(const Ports& ports, const ControlSettings& settings, ApiSockets sockets);

}  // namespace sluice::control
