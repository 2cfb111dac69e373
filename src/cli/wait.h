// `--wait`: until a revision serves or is given up.
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

// Returns at once without --wait; else when each revision serves: as the only one, as a canary
// (without traffic, canaryTrafficPercent 0: when an instance is ready), or (with minReplicas 0)
// with its first request; `--timeout` is for all of them together. Says on
// stdout which serves, except for JSON. kInternal: one cannot start, with the reason; kConflict:
// another revision is newer; kTimeout, with what is in the way.
Result<void> wait_as_asked(const Session& session, const WaitFlags& flags,
                           const std::vector<Awaited>& revisions);
// kInvalid: --timeout is no duration. For before anything is changed.
Result<Nanos> timeout_of(const WaitFlags& flags);

}  // namespace sluice::cli
