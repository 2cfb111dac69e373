// What instances run and load beside the platform's own processes: the trainer, the libraries that
// are preloaded, modules for Python. Root's instances run under user ids of their own, to which the
// folder of this program may be closed, as one in /root is.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace sluice::cli {

// Copies them into the platform's data directory if this is root and others cannot reach them where
// they are. Processes that run an earlier copy keep it.
Result<void> provide_programs(const std::string& data);

// The same for a node daemon without `sluice up`, which has not done so.
Result<void> provide_missing_programs(const std::string& data);

// Returns the folder that has them.
std::filesystem::path folder_of_programs(const std::string& data);

}  // namespace sluice::cli
