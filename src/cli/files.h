// Function files as arguments of commands: files, folders of them, or standard input.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace sluice::cli {

struct FunctionFile {
  std::string name, folder, text;  // paths in the text are relative to the folder
};

// Returns them by name. "-" is standard input, whose folder is the working directory.
Result<std::vector<FunctionFile>> read_files(const std::vector<std::string>& named);

}  // namespace sluice::cli
