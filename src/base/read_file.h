// Reads a whole file, also one of the kernel's, such as /proc/1/stat or a cgroup's, which may be
// gone between two reads. (A std::istreambuf_iterator throws then, which would end the process.)
// What another user may have written is read by RegularFile. Any thread.
#pragma once

#include <string>

#include "base/result.h"

namespace sluice {

// Returns kNotFound if there is no such file, kUnavailable with the path if it cannot be read.
Result<std::string> read_file(const std::string& path);

}  // namespace sluice
