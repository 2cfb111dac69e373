// A child process and its output: for tests in which a crash, another user's rights or another
// program's output matters. For tests only.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

namespace sluice {

struct ChildOutput {
  std::string said;  // all of its output
  int status = 0;    // as of waitpid()
};

// Runs `body` in a child that ends after it; `out` is what it writes to.
inline ChildOutput in_child(const std::function<void(int out)>& body) {
  int ends[2];
  if (pipe(ends) != 0) return {"no pipe", -1};
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    body(ends[1]);
    _exit(0);
  }
  close(ends[1]);
  ChildOutput child;
  char part[4096];
  for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;)
    child.said.append(part, static_cast<size_t>(n));
  close(ends[0]);
  waitpid(pid, &child.status, 0);
  return child;
}

}  // namespace sluice
