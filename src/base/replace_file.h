// A small file that is there whole or not at all: written aside, then renamed. Unless flushed to
// the disk it survives our death, not the machine's. Any thread; who writes the same path at once
// takes turns.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice {

enum class Flush { kNo, kYes };

// kDenied: not allowed; kInternal: anything else, such as a full disk, with the path. What was
// there before then is there still.
Result<void> replace_file(const std::string& path, std::string_view text, mode_t mode = 0600,
                          Flush flush = Flush::kNo);

}  // namespace sluice
