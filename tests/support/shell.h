// Runs a command as a user types it.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace sluice {

struct Ran {
  int code = 0;
  std::string said;  // stdout and stderr
};

inline Ran run(const std::string& command) {
  Ran ran;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  char part[4096];
  for (size_t n; (n = fread(part, 1, sizeof part, pipe)) > 0;) ran.said.append(part, n);
  ran.code = WEXITSTATUS(pclose(pipe));
  return ran;
}

}  // namespace sluice
