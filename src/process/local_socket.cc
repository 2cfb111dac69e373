#include "process/local_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/system_error.h"

namespace sluice::node {
namespace {

constexpr int kBacklog = 1024;  // connections that may wait to be accepted

}  // namespace

Result<Fd> listen_at(const std::string& path, const std::string& what) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof at.sun_path)
    return Error{ErrorKind::kInvalid, what + ": path \"" + path + "\" must have 1 … " +
                                          std::to_string(sizeof at.sun_path - 1) + " bytes"};
  path.copy(at.sun_path, path.size());
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  unlink(path.c_str());
  if (!fd.valid() || bind(fd.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 ||
      chmod(path.c_str(), 0666) != 0 || listen(fd.get(), kBacklog) != 0)
    return system_error(what + ": " + path);
  return fd;
}

}  // namespace sluice::node
