// The control process: the loop on a timer, and the API, on one thread. Separate threads call the
// node daemon and the gateway, and read applied files, so a GET is answered within 100 ms whatever
// those do. A change waits for the store, for the files that its request names, and for the tick
// that begins it (turns.h).
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
  std::string trainer;  // the program sluice-trainer
  std::string home;     // the meaning of "~" in function files
};

// Runs until SIGTERM or SIGINT.
Result<void> run_control(const ControlOptions& options);

}  // namespace sluice::control
