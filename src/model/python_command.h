// Commands that run a script by Python, as `server.imports` needs them. Free functions; any thread.
#pragma once

#include <string>
#include <vector>

namespace sluice {

// Returns why the modules cannot be imported before that command's script runs; empty if they can,
// or if there are none. The command must be a path of an interpreter, whose last component begins
// with "python", then a script's; a name is as in `import NAME`.
std::string imports_problem(const std::vector<std::string>& command,
                            const std::vector<std::string>& imports);

}  // namespace sluice
