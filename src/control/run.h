// The control process: the loop on a timer, and the API, on one thread. Threads of their own talk
// to the node daemon and the gateway, and read the files that are applied: a GET is answered within
// 100 ms, whatever those do. A change waits for the store, for what its request names in files, and
// for the turn that begins it (turns.h).
#pragma once

#include <string>

#include "base/result.h"
#include "control/control.h"

namespace sluice::control {

struct ControlOptions {
  std::string data;    // the data directory
  int listen_fd = -1;  // the inherited unix socket for the API; −1: made here, DATA/run/api.sock
  int tcp_fd = -1;     // an inherited TCP socket for it; −1: none
  ControlSettings settings;
  std::string home;  // what "~" means in function files
};

// Until SIGTERM or SIGINT.
Result<void> run_control(const ControlOptions& options);

}  // namespace sluice::control
