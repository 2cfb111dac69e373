// The descriptors that the supervisor's children inherit, at fixed numbers.
#pragma once

#include <fcntl.h>

#include <initializer_list>

namespace sluice::cli {

inline constexpr int kListenFd = 3;  // the first listening socket; the second follows it
inline constexpr int kLockFd = 9;    // of DATA/run/NAME.lock, locked for as long as the child lives

// Keeps them from the programs that this process starts: an instance could hold the lock or answer
// on the socket in its place. Ignores a descriptor that is not open.
inline void keep_inherited() {
  for (const int fd : {kListenFd, kListenFd + 1, kLockFd}) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

}  // namespace sluice::cli
