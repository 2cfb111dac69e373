// Copies files by content, whole or not at all: a copy stays as it is whatever becomes of the
// original. Any thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>

#include "base/regular_file.h"
#include "base/result.h"

namespace sluice {

// Writes a copy at `to`, in place of what is there. File systems that clone share its blocks.
// Returns "TO: No space left on device" if the copy would leave less than a tenth of the free
// space; kConflict if the file became shorter meanwhile; kUnavailable once `stopped`.
Result<void> copy_file(const RegularFile& from, const std::string& to, mode_t mode,
                       const std::atomic<bool>& stopped);
Result<void> copy_file(const RegularFile& from, const std::string& to, mode_t mode);

// Returns whether the file system of a folder has less than a MiB left, which explains a failed
// write.
bool disk_is_full(const std::string& folder);

}  // namespace sluice
