// Which process is meant, for as long as anybody remembers it: a pid alone is reused, pid with
// start time and boot id is not (/proc, proc(5)). Free functions; any thread.
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

// Nothing when there is no such process, or only its corpse.
std::optional<ProcessIdentity> identity_of(pid_t pid);

// A pidfd of exactly that process: the pid is looked at again after it was opened. kNotFound when
// it is gone.
Result<Fd> open_process(const ProcessIdentity& process);

// Signals exactly that process. Returns false where it is gone.
bool signal_process(const ProcessIdentity& process, int signal);

// The file that it executes, though it may have been replaced since; empty where the kernel does
// not say.
std::string program_of(pid_t pid);

// The process and all its living descendants.
std::vector<pid_t> family_of(pid_t pid);

// Whose it is; nothing when there is no such process.
std::optional<uid_t> uid_of(pid_t pid);

// Its parent, that one's parent, and so on: the nearest first.
std::vector<ProcessIdentity> ancestors_of(pid_t pid);

// How it ended, in words: "exit code 3", "signal 9 (Killed)". Its parent may have reaped it
// already; kernels from 6.15 on remember for the pidfd, on others nothing is known then.
std::string how_it_ended(int pidfd);

}  // namespace sluice::node
