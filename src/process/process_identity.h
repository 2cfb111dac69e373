// Identifies a process for as long as its identity is kept: a pid alone is reused, pid with start
// time and boot id is not (/proc, proc(5)). Free functions; any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace sluice::node {

struct ProcessIdentity {
  pid_t pid = 0;
  uint64_t start_time = 0;  // clock ticks since boot

  bool operator==(const ProcessIdentity&) const = default;
};

// The kernel's name for this boot.
Result<std::string> boot_id();

// Returns nothing if there is no such process, or only a zombie.
std::optional<ProcessIdentity> identity_of(pid_t pid);

// Returns whether the process has begun to exit, or is gone. The kernel may still be freeing its
// memory then, and reports no cgroup of version 1 for it.
bool is_exiting(pid_t pid);

// Returns a pidfd of exactly that process: the pid is checked again after the pidfd was opened.
// Returns kNotFound if it is gone.
Result<Fd> open_process(const ProcessIdentity& process);

// Signals exactly that process. Returns false if it is gone.
bool signal_process(const ProcessIdentity& process, int signal);

// Returns the file that it executes, which may have been replaced since; empty if the kernel does
// not report it.
std::string program_of(pid_t pid);

// Returns the process and all its living descendants.
std::vector<pid_t> family_of(pid_t pid);

// Returns its user; nothing if there is no such process.
std::optional<uid_t> uid_of(pid_t pid);

// Returns its parent, that one's parent, and so on: the nearest first.
std::vector<ProcessIdentity> ancestors_of(pid_t pid);

// Returns whether the kernel has `pid` behind the pidfd, as a child of `parent` under `uid`. The
// process may have ended, but was not reaped.
bool is_child(int pidfd, pid_t pid, pid_t parent, uid_t uid);

// Returns how it ended, in words: "exit code 3", "signal 9 (Killed)". Its parent may have reaped it
// already: kernels from 6.15 on remember the status for the pidfd; on older ones it is unknown
// then.
std::string how_it_ended(int pidfd);

}  // namespace sluice::node
