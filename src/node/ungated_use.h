// Who uses a device past the gate: a process that the device's account shows at work while it has
// no pages. Late, as the account is, and of nobody who lives for less than two of its stretches: a
// stretch counts only where the process was known, and without pages, before it began. So whoever
// attaches meanwhile, as with a daemon that was started again, is charged by its own meter alone.
//
// Pure; not thread-safe.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <vector>

#include "node/device_account.h"

namespace sluice::node {

class UngatedUse {
 public:
  struct Use {
    pid_t pid = 0;
    Nanos busy{0};
    Time until{};
  };

  // What became known since the last call; `attached` is not older than `account`. An account has
  // the newest stretch of each process alone: ask more often than it makes new ones.
  std::vector<Use> take(const std::map<pid_t, DeviceUse>& account, const std::set<pid_t>& attached,
                        Time now);

 private:
  struct Process {
    Time since{};  // known, and without pages
    Time taken_until{};
  };
  std::map<pid_t, Process> processes_;
};

}  // namespace sluice::node
