// The processes of a platform, found by the kernel alone. The supervisor starts its children with
// SLUICE_PLATFORM=DATA in their environment, and their children inherit it (zygote, templates,
// instances, MPS's daemons). A program of `sluice run` does not carry it. Any thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace sluice::cli {

struct PlatformProcess {
  pid_t pid = 0;
  std::string name;  // as the kernel shows it
  Fd pidfd;
};

// Returns the environment variable of a platform's process, whatever the path of DATA.
std::string platform_variable(const std::string& data);

// Returns the living processes, without this one.
std::vector<PlatformProcess> platform_processes(const std::string& data);

// Asks living processes to end (SIGTERM), and kills them (SIGKILL) after `patience`. An error names
// those that live on after that.
Result<void> end_platform_processes(const std::string& data, Nanos patience);

}  // namespace sluice::cli
