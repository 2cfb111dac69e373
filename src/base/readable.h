// Whether a process of another user could read a file. Reads the folders' permissions.
#pragma once

#include <filesystem>

namespace sluice {

// By the permissions for others of the file and of all folders above it; access lists do not count.
// False for a file that does not exist.
bool readable_by_all(const std::filesystem::path& path);
// The same of a folder that is to be passed through.
bool enterable_by_all(const std::filesystem::path& folder);
// The same of a program that is to be run, or of a folder that is to be read.
bool runnable_by_all(const std::filesystem::path& path);

}  // namespace sluice
