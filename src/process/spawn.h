// Starts a program of ours as a process, in a session of its own, so that it can outlive this
// process. It has no blocked signals, and only the descriptors that are passed.
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
  std::vector<std::pair<int, int>> files{};  // our descriptor, and its number there: 0, 1, 2 and on
};

Result<SpawnedProcess> spawn(SpawnRequest request);

// Returns pointers as execve() takes them: valid until `words` changes.
std::vector<char*> pointers_to(std::vector<std::string>& words);

// Returns our own environment, without the variables that begin so.
std::vector<std::string> environment_without(std::initializer_list<std::string_view> prefixes);

}  // namespace sluice::node
