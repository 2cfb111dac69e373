// Writes a small file whole or not at all: written aside, then renamed. Unless flushed to the disk
// it survives the process's death, not the machine's. Any thread; writers of the same path take
// turns.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice {

enum class Flush { kNo, kYes };

// Returns kDenied if it is not allowed; kInternal with the path for anything else, such as a full
// disk. On an error the earlier file is still there.
Result<void> replace_file(const std::string& path, std::string_view text, mode_t mode = 0600,
                          Flush flush = Flush::kNo);

}  // namespace sluice
