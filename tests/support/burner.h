// A process that uses CPU time on request, and rests otherwise. For tests only.
#pragma once

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/fd.h"
#include "wire/permit.h"

namespace sluice::node {

class Burner {
 public:
  Burner() {
    int ends[2];
    SLUICE_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0, "socketpair");
    ours_.reset(ends[0]);
    const Fd theirs(ends[1]);
    pid_ = fork();
    if (pid_ != 0) return;
    ours_.reset();
    for (uint64_t ns; read(theirs.get(), &ns, sizeof ns) == sizeof ns;) {
      const uint64_t end = sluice_clock(CLOCK_PROCESS_CPUTIME_ID) + ns;
      while (sluice_clock(CLOCK_PROCESS_CPUTIME_ID) < end) {
      }
      if (write(theirs.get(), &ns, sizeof ns) != sizeof ns) break;
    }
    _exit(0);
  }
  ~Burner() { end(); }
  Burner(const Burner&) = delete;

  pid_t pid() const { return pid_; }
  // Returns when it has used so much CPU time.
  void burn(Nanos cpu) {
    auto ns = static_cast<uint64_t>(cpu.count());
    SLUICE_CHECK(write(ours_.get(), &ns, sizeof ns) == sizeof ns, "the burner is gone");
    SLUICE_CHECK(read(ours_.get(), &ns, sizeof ns) == sizeof ns, "the burner is gone");
  }
  // Returns when it is gone.
  void end() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  Fd ours_;
  pid_t pid_ = 0;
};

}  // namespace sluice::node
