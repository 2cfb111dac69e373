// A program of ours as a process: in a session of its own, so that it outlives us where it is to,
// with no signal blocked and no descriptor but those that it is given.
#pragma once

#include <sys/types.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace sluice::node {

struct SpawnedProcess {
  pid_t pid = 0;
  Fd pidfd;
};

struct SpawnRequest {
  std::string program;
  std::vector<std::string> words;            // after its name
  std::vector<std::string> variables;        // NAME=VALUE: its whole environment
  std::vector<std::pair<int, int>> files{};  // ours, and what it is there: 0, 1, 2 and on
};

Result<SpawnedProcess> spawn(SpawnRequest request);

// Our own environment, but for the variables that begin so.
std::vector<std::string> environment_without(std::initializer_list<std::string_view> prefixes);

}  // namespace sluice::node
