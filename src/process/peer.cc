#include "process/peer.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

namespace sluice::node {
namespace {

// Not in Debian 12's headers: of Linux 6.5 and 6.9.
constexpr int kSoPeerPidfd = 77;
constexpr auto kPidFilesystem = 0x50494446;

Fd peer_pidfd(int socket, pid_t pid) {
  int fd = -1;
  socklen_t size = sizeof fd;
  if (getsockopt(socket, SOL_SOCKET, kSoPeerPidfd, &fd, &size) == 0) return Fd(fd);
  if (errno != ENOPROTOOPT) return Fd();
  return Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

ucred credentials(int socket) {
  ucred who{};
  socklen_t size = sizeof who;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 ? who : ucred{};
}

}  // namespace

pid_t peer_pid(int socket) {
  return credentials(socket).pid;
}

Result<Peer> identify_peer(int socket) {
  const ucred who = credentials(socket);
  if (who.pid <= 0) return Error{ErrorKind::kDenied, "the process cannot be seen from here"};
  Fd pidfd = peer_pidfd(socket, who.pid);
  const std::optional<ProcessIdentity> process = identity_of(who.pid);
  // Alive after its start time was read: so the start time is its own.
  if (!pidfd.valid() || !process || has_ended(pidfd.get()))
    return Error{ErrorKind::kDenied, "the process has ended"};
  return Peer{*process, who.uid, std::move(pidfd), ""};
}

Result<Peer> identify_unseen_peer(int socket) {
  int fd = -1;
  socklen_t size = sizeof fd;
  struct statfs kind {};
  struct stat file {};
  if (getsockopt(socket, SOL_SOCKET, kSoPeerPidfd, &fd, &size) != 0)
    return Error{ErrorKind::kDenied, "the process cannot be seen from here"};
  Fd pidfd(fd);
  if (fstatfs(fd, &kind) != 0 || kind.f_type != kPidFilesystem || fstat(fd, &file) != 0)
    return Error{ErrorKind::kDenied, "this kernel tells no processes apart that cannot be seen"};
  if (has_ended(fd)) return Error{ErrorKind::kDenied, "the process has ended"};
  return Peer{{.pid = 0, .start_time = file.st_ino}, credentials(socket).uid, std::move(pidfd), ""};
}

bool has_ended(int pidfd) {
  pollfd p{.fd = pidfd, .events = POLLIN, .revents = 0};
  return poll(&p, 1, 0) != 0;
}

}  // namespace sluice::node
