// The start of a program of a user's: the daemon forks, and the child waits until it is told to go.
// By then it is in its cgroup. It takes its uid for good, without capabilities, and becomes the
// program. Of the daemon's descriptors it has none.
#pragma once

#include <string>
#include <vector>

#include "node/launcher.h"
#include "node/program_environment.h"

namespace sluice::node {

struct ProgramStart {
  std::vector<std::string> words;      // the program's path, then its words
  std::vector<std::string> variables;  // its whole environment
  std::string folder = "/";            // where it begins
  uid_t uid = 0;                       // and gid; 0: the daemon's
  Fd handed;                           // its descriptor 3; invalid: none
  Fd log;                              // its output
};

// Returns the start of a part of the record's, with `variables` and those that name its address.
// The first part serves: at a descriptor that listens, or at a port that it binds itself.
Result<ProgramStart> start_of(const InstanceRecord& r, size_t part, const Variables& variables);

// Returns the child, which waits for Go. It ends with the daemon.
Result<Newborn> fork_waiting(asio::io_context& io, ProgramStart start);

}  // namespace sluice::node
