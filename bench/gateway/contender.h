// A process under test: a proxy pinned to its cores, ended with the object. One thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/clock.h"

namespace sluice::bench {

class Process {
 public:
  // Starts it on `cores` ("0", "0-1"), as taskset understands them, with its output in `log`.
  Process(const std::vector<std::string>& command, const std::string& cores,
          const std::string& log);
  Process(Process&&) noexcept;
  ~Process();  // SIGTERM, then waits

  bool running() const;
  Nanos cpu() const;  // of it and its children, so far
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

// Returns the text of a file with each @NAME@ replaced.
std::string filled_in(const std::string& file,
                      const std::vector<std::pair<std::string, std::string>>& values);

// Returns a TCP port of the loopback that was free a moment ago.
int free_port();

// A run of wrk: its script's output.
struct LoadResult {
  double requests_per_second = 0;
  double p50_us = 0, p99_us = 0;
  uint64_t requests = 0, errors = 0;
};
LoadResult run_wrk(const std::string& script, const std::string& url, const std::string& cores,
                   int connections, int body_bytes, int seconds);

}  // namespace sluice::bench
