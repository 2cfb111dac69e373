// DATA/logs and its bounds. A log longer than 32 MiB is moved aside once, to NAME.log.1, and begins
// anew. Logs of ended instances are kept for 7 days, at most the newest 200, and at most 256 MiB of
// them. Any thread; one at a time for a folder.
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
  Bytes bytes = 0;   // with the part moved aside
  FileTime written;  // last write
};

// Returns the names of the logs to remove.
std::vector<std::string> logs_to_remove(std::vector<EndedLog> ended, FileTime now,
                                        const LogLimits& limits);

// Moves long logs aside, and removes logs of ended instances. Keeps the logs of the instances named
// in `living`, and of the platform's own processes. Leaves a file that cannot be read or removed.
void tidy_logs(const std::string& folder, const std::set<std::string>& living, FileTime now,
               const LogLimits& limits = {});

// Opens a log to append to. If that fails, as on a full disk, the output is discarded: a process
// without a log is better than none.
Fd open_log(const std::string& path);

// Returns the last lines of a log, for people: a dead process's last output. Each is printable.
std::string last_lines(const std::string& path, size_t bytes = 400);

}  // namespace sluice::node
