// Whether a process of another user could read a file. Reads the folders' permissions.
#pragma once

#include <filesystem>

namespace sluice {

// By the permissions for others of the file and of all folders above it; access lists do not count.
// False for a file that does not exist.
bool readable_by_all(const std::filesystem::path& path);

}  // namespace sluice
