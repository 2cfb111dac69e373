// A child that becomes a program, while this process stays beside it until it ends, as timeout(1)
// does, to report why it ended. Signals from other processes are passed on to the child; a
// terminal's signals reach both by themselves. The child dies with this process.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "base/fd.h"

namespace sluice::cli {

class Companion {
 public:
  // Forks; only for a process of one thread. Both processes go on from here.
  Companion();

  bool in_child() const { return child_ == 0; }
  // Called in the child, if it cannot become its program after all.
  void could_not() const;

  struct End {
    bool was_program = false;
    int status = 0;  // in a shell's form: 128 + signal if one ended it
  };
  // Called in the parent; afterwards its signals are its own again.
  End wait();

 private:
  Fd failed_;  // one byte of could_not(), else nothing until the child has become its program
  sigset_t before_{};  // the signals that were blocked
  pid_t child_ = 0;
};

}  // namespace sluice::cli
