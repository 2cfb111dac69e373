// Waiting for an answer in other people's programs.
#pragma once

#include <poll.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace sluice::hook {

// Whether something can be read, or the other side is gone, before so long has passed or a signal
// has come. Not libc's poll(), at which a thread could be cancelled.
inline bool readable(int socket, uint64_t ns) {
  pollfd waiting{.fd = socket, .events = POLLIN, .revents = 0};
  const timespec patience{.tv_sec = static_cast<time_t>(ns / 1000000000),
                          .tv_nsec = static_cast<long>(ns % 1000000000)};
  return syscall(SYS_ppoll, &waiting, 1, &patience, nullptr, 0) == 1;
}

}  // namespace sluice::hook
