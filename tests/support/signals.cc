// kill() as every test has it. Process 0 is the caller's whole group and -1 every process: a test
// that took the pid of a process that was not there would end its runner, and nothing would say
// which it was.
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

extern "C" int kill(pid_t process, int number) noexcept {
  if (process == 0 || process == -1) {
    std::fprintf(stderr, "a test sends signal %d to process %d\n", number, process);
    std::abort();
  }
  return static_cast<int>(syscall(SYS_kill, process, number));
}
