// The confinement of a process that runs a user's model (docs/threat-model.md#models). A
// TorchScript file can open, create and write files by its operators, and a fault in libtorch's
// loader runs its author's code. So the process gives up its privileges before it reads the file.
//
// Free functions, for a process of one thread; its later threads and children are confined, too.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/result.h"

namespace sluice::runtime {

// Gives up, for good:
// - the uid and all groups for `uid`, and with them root's capabilities; 0: they stay;
// - new privileges by exec;
// - with Landlock (Linux 5.13): opening a file for writing, making, removing, renaming and
// executing
//   one; from Linux 6.12 on also signals to processes that were not forked from here after this
//   call. Without Landlock the uid's own rights remain.
// Open descriptors stay usable. May be called again: a child's second call keeps its signals from
// its siblings.
Result<void> confine(uid_t uid);

// Returns a uid for a process of root's, which has no files and runs nothing else: one for each pid
// where the process's uids reach so far, else "nobody".
uid_t unprivileged_uid();

// Bounds the process's address space, its CPU time and the size of its log until lift_limits(). A
// model that runs code of its own could lift them, too.
void limit(uint64_t memory, uint64_t cpu_seconds);
void lift_limits();

// Returns the address space for a model file of that size, as load and a run of zeros may use it.
constexpr uint64_t memory_to_load(uint64_t file) {
  return (uint64_t{4} << 30) + 4 * file;
}

}  // namespace sluice::runtime
