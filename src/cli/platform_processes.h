// The processes of a platform, found by the kernel alone: the supervisor starts its children with
// SLUICE_PLATFORM=DATA in their environment, and what they start inherits it (zygote, templates,
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

// What the environment of a platform's process holds, by whatever path DATA is named.
std::string platform_variable(const std::string& data);

// Those that live, without this one.
std::vector<PlatformProcess> platform_processes(const std::string& data);

// Asks what lives to end (SIGTERM), and kills it (SIGKILL) after `patience`. An error names what
// lives on after that.
Result<void> end_platform_processes(const std::string& data, Nanos patience);

}  // namespace sluice::cli
