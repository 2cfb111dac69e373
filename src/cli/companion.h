// A child that becomes a program, with us beside it until it ends, as timeout(1) stays: for whoever
// has to know why it ended. What somebody sends to us is passed on to it; what a terminal sends
// goes to both by itself. It dies with us.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "base/fd.h"

namespace sluice::cli {

class Companion {
 public:
  // Forks; of one thread alone. Both go on from here.
  Companion();

  bool in_child() const { return child_ == 0; }
  // In the child, where it cannot become its program after all.
  void could_not() const;

  struct End {
    bool was_program = false;
    int status = 0;  // as a shell tells it: 128 + signal where one ended it
  };
  // In the parent; from then on signals are its own again.
  End wait();

 private:
  Fd failed_;  // one byte of could_not(), else nothing until the child has become its program
  sigset_t before_{};  // what was blocked
  pid_t child_ = 0;
};

}  // namespace sluice::cli
