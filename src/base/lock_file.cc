#include "base/lock_file.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

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
    // Released in between: try once more.
  }
  return fd;
}

Result<pid_t> lock_holder(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid()) return errno == ENOENT ? Result<pid_t>(0) : system_error(path);
  return holder_of(fd, path);
}

Result<std::optional<LockHolder>> open_lock_holder(const std::string& path) {
  for (;;) {
    SLUICE_ASSIGN(pid, lock_holder(path));
    if (pid == 0) return std::optional<LockHolder>();
    Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!pidfd.valid() && errno != ESRCH)
      return system_error(path + " is held by process " + std::to_string(pid));
    SLUICE_ASSIGN(again, lock_holder(path));
    if (pidfd.valid() && again == pid) return std::optional(LockHolder{pid, std::move(pidfd)});
  }
}

bool lock_for_program(const char* path, int as) {
  const int fd = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  // Before the lock: closing any descriptor of the file, at execve() too, drops it.
  if (fd == as) {
    ::fcntl(fd, F_SETFD, 0);
  } else {
    if (::dup2(fd, as) < 0) return false;
    ::close(fd);
  }
  struct flock whole = whole_file();
  return ::fcntl(as, F_SETLK, &whole) == 0;
}

}  // namespace sluice
