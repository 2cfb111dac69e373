#include "base/lock_file.h"

#include <fcntl.h>

#include <cerrno>

#include "base/system_error.h"

namespace sluice {
namespace {

Error held(const std::string& path, const std::string& by) {
  return {ErrorKind::kConflict, path + " is held by " + by};
}

struct flock whole_file() {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return whole;
}

Result<pid_t> holder_of(const Fd& fd, const std::string& path) {
  struct flock found = whole_file();
  if (::fcntl(fd.get(), F_GETLK, &found) != 0) return system_error(path);
  if (found.l_type == F_UNLCK) return 0;
  if (found.l_pid <= 0) return held(path, "a process that has no pid here");
  return found.l_pid;
}

}  // namespace

Result<Fd> take_lock(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return system_error(path);
  struct flock whole = whole_file();
  while (::fcntl(fd.get(), F_SETLK, &whole) != 0) {
    if (errno != EACCES && errno != EAGAIN) return system_error(path);
    SLUICE_ASSIGN(pid, holder_of(fd, path));
    if (pid != 0) return held(path, "process " + std::to_string(pid));
    // Let go in between: once more.
  }
  return fd;
}

Result<pid_t> lock_holder(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid()) return errno == ENOENT ? Result<pid_t>(0) : system_error(path);
  return holder_of(fd, path);
}

}  // namespace sluice
