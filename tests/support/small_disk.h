// Small file systems, for tests of full disks.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "base/fd.h"

namespace sluice {

// Has space for the copies of the programs that are made where the build is closed to other users.
inline constexpr const char* kSmallDisk = "size=64m";

// Mounts a small file system at `path`, gone with this test; returns false if it is not allowed.
inline bool mount_small(const std::string& path, const std::string& options) {
  return unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, "") == 0 &&
         mount("tmpfs", path.c_str(), "tmpfs", 0, options.c_str()) == 0;
}

// Fills all its free space.
inline void fill(const std::string& path) {
  const Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const std::string page(4096, 'x');
  while (write(file.get(), page.data(), page.size()) > 0) {
  }
}

// Also takes all inodes of a file system mounted with "nr_inodes=N": no file can be made. The
// folder `path` holds the files that take them.
inline void fill_with_files(const std::string& path) {
  mkdir(path.c_str(), 0700);
  fill(path + "/filler");
  for (int i = 0;
       Fd(open((path + "/" + std::to_string(i)).c_str(), O_CREAT | O_CLOEXEC, 0600)).valid(); ++i) {
  }
}

}  // namespace sluice
