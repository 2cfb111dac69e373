// DATA/logs and its bounds. A log that is longer than 32 MiB is moved aside once, to NAME.log.1,
// and begins anew. The logs of instances that have ended are kept for 7 days, and of those the
// newest 200, and of those the newest 256 MiB. Any thread; one at a time for a folder.
#pragma once

#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/fd.h"
#include "model/slice.h"

namespace sluice::node {

using FileTime = std::filesystem::file_time_type;

struct LogLimits {
  Bytes one = Bytes{32} << 20;
  std::chrono::hours age{7 * 24};
  size_t count = 200;
  Bytes all = Bytes{256} << 20;
};

struct EndedLog {
  std::string name;  // the instance's
  Bytes bytes = 0;   // with what was moved aside
  FileTime written;  // last
};

// The names of those that go.
std::vector<std::string> logs_to_remove(std::vector<EndedLog> ended, FileTime now,
                                        const LogLimits& limits);

// Moves long logs aside, and removes logs of ended instances. `living` are the names of instances
// whose logs stay; so do those of the platform's own processes. A file that cannot be read or
// removed is left.
void tidy_logs(const std::string& folder, const std::set<std::string>& living, FileTime now,
               const LogLimits& limits = {});

// Opens a log to append to. Where that is not possible, as on a full disk, the output goes nowhere:
// a process without a log is better than none.
Fd open_log(const std::string& path);

}  // namespace sluice::node
