// `--wait`: waits until a revision serves or is given up.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "cli/session.h"

namespace sluice::cli {

struct WaitFlags {
  bool wait = false;
  std::string timeout = "5m";
};
void add_wait(CLI::App& command, WaitFlags& flags);  // --wait and --timeout

struct Awaited {
  FunctionName function;
  int revision = 0;
};

// Returns at once without --wait. Otherwise returns once each revision serves: as the only one, as
// a canary (without traffic, canaryTrafficPercent 0: once an instance is ready), or (with
// minReplicas 0) with its first request. `--timeout` is for all of them together. Prints which
// serves, except for JSON. Errors: kInternal: one cannot start, with the reason; kConflict: another
// revision is newer; kTimeout, with the obstacle.
Result<void> wait_as_asked(const Session& session, const WaitFlags& flags,
                           const std::vector<Awaited>& revisions);
// Returns kInvalid if --timeout is no duration. Call it before any change.
Result<Nanos> timeout_of(const WaitFlags& flags);

}  // namespace sluice::cli
