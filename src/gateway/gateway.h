// The gateway process: the front door of all functions. Puts dispatcher, loops, sessions and the
// admin API together, in one call.
#pragma once

#include <string>

#include "base/result.h"
#include "gateway/session.h"

namespace sluice::gateway {

struct GatewayOptions {
  std::string listen = "127.0.0.1:8000";
  int listen_fd = -1;             // an inherited listening socket instead
  std::string admin;              // the admin API's unix socket
  std::string routes_file;        // where the last table is kept; empty: nowhere
  int threads = 0;                // loops; 0: one per core less one, at least one
  std::string tls_cert, tls_key;  // PEM files; both or neither
  std::string token_file;         // of the platform's token for functions without one; empty: none
  std::string version = "0";
  bool strict_readiness = false;  // /v2/health/ready: only while all functions are ready
  SessionLimits limits;
  LoopLimits loop_limits;  // of all loops together
};

// Runs until SIGTERM or SIGINT: then accepts no more, finishes its requests, and returns.
Result<void> run_gateway(const GatewayOptions& options);

}  // namespace sluice::gateway
