// A lock file: the process that holds it is the only one of its kind. Held for a process's life:
// the kernel drops it with the process, however that ends; the file stays.
//
// A POSIX record lock (fcntl), because it belongs to the process. A child that was forked and not
// yet executed does not keep it, as it would keep a flock(), and the kernel names its holder. Its
// trap: the lock goes when the process closes ANY descriptor of the file. So in the holder's
// process only these functions may open the file, and only for another process's lock. A process
// can take its own lock again; it keeps out other processes, not other threads.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace sluice {

// Makes the file if it is missing. Returns kConflict if another process holds it, with its pid in
// the message. The lock lives as long as the descriptor.
Result<Fd> take_lock(const std::string& path);

// Returns the pid of the other process that holds it; 0 if none does, or there is no such file.
// Returns kConflict if a process without a pid here (in another pid namespace) holds it.
Result<pid_t> lock_holder(const std::string& path);

struct LockHolder {
  pid_t pid = 0;
  Fd pidfd;  // of exactly that process: it still held the lock after the descriptor was opened
};
// Returns the process that lock_holder() finds; nullopt if it finds none.
Result<std::optional<LockHolder>> open_lock_holder(const std::string& path);

// Takes the lock for the program that this process becomes: the lock and descriptor `as` outlive
// execve(). For a child between fork() and execve(): only makes system calls. Returns false if the
// lock is held or the file cannot be opened, with errno.
bool lock_for_program(const char* path, int as);

}  // namespace sluice
