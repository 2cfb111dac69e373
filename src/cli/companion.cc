#include "cli/companion.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"

namespace sluice::cli {
namespace {

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2})
    sigaddset(&set, signal);
  return set;
}

}  // namespace

Companion::Companion() {
  int ends[2];
  SLUICE_CHECK(pipe2(ends, O_CLOEXEC) == 0, "no descriptors left");
  Fd read_end(ends[0]), write_end(ends[1]);
  const sigset_t ours = watched();
  signal(SIGCHLD, SIG_DFL);  // if it is ignored, a child's exit status is lost
  sigprocmask(SIG_BLOCK, &ours, &before_);
  const pid_t parent = getpid();
  child_ = fork();
  SLUICE_CHECK(child_ >= 0, "no processes left");
  failed_ = in_child() ? std::move(write_end) : std::move(read_end);
  if (!in_child()) return;
  sigprocmask(SIG_SETMASK, &before_, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
}

void Companion::could_not() const {
  (void)!write(failed_.get(), "", 1);
}

Companion::End Companion::wait() {
  const sigset_t ours = watched();
  int status = 0;
  while (waitpid(child_, &status, WNOHANG) == 0) {
    siginfo_t info;
    const int signal = sigwaitinfo(&ours, &info);
    const bool from_somebody = info.si_code <= 0;  // else the terminal's, for its whole group
    if (signal > 0 && signal != SIGCHLD && from_somebody) kill(child_, signal);
  }
  sigprocmask(SIG_SETMASK, &before_, nullptr);
  char byte;
  return {.was_program = read(failed_.get(), &byte, 1) == 0,
          .status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status)};
}

}  // namespace sluice::cli
