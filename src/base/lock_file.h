// A lock file: whose process holds it is the only one of its kind. Taken for a process's life: the
// kernel drops it with the process, however that ends; the file stays.
//
// A POSIX record lock (fcntl), because it belongs to the process: a child that was forked and not
// yet executed does not keep it, as it would keep a flock(), and the kernel says who holds it. Its
// trap: the lock goes when the process closes ANY descriptor of the file, so nothing in the
// holder's process may open the file but these functions, and these only for another's file. A
// process can take its own lock again; it keeps out other processes, not other threads.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace sluice {

// Makes the file where there is none. kConflict: another process holds it, and the message names
// its pid. The lock lives as long as the descriptor.
Result<Fd> take_lock(const std::string& path);

// The pid of the other process that holds it; 0: none does, or there is no such file. kConflict:
// held by one that has no pid here (another pid namespace's).
Result<pid_t> lock_holder(const std::string& path);

struct LockHolder {
  pid_t pid = 0;
  Fd pidfd;  // of exactly that process: it still held the lock after the descriptor was opened
};
// The process that lock_holder() finds; nullopt where it finds none.
Result<std::optional<LockHolder>> open_lock_holder(const std::string& path);

// Takes the lock for the program that this process becomes: the lock and descriptor `as` outlive
// execve(). For a child between fork() and execve(): makes system calls alone. Returns false where
// the lock is held or the file cannot be opened; errno says why.
bool lock_for_program(const char* path, int as);

}  // namespace sluice
