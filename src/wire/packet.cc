#include "wire/packet.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace sluice::wire {
namespace {

Error socket_error(const char* what) {
  const bool gone = errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN;
  return {gone ? ErrorKind::kUnavailable : ErrorKind::kInternal,
          std::string(what) + ": " + std::generic_category().message(errno)};
}

// Takes ownership of all received descriptors, even of more than we allow.
std::vector<Fd> take_descriptors(msghdr& message) {
  std::vector<Fd> fds;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

Result<void> send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> fds) {
  SLUICE_CHECK(bytes.size() <= kMaxPacketBytes && fds.size() <= kMaxPacketFds, "packet over limit");
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxPacketFds)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size_bytes());
  }
  ssize_t sent;
  do sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) return socket_error("sendmsg");
  return {};
}

Result<Packet> receive_packet(int socket) {
  Packet packet;
  packet.bytes.resize(kMaxPacketBytes);
  iovec part{packet.bytes.data(), packet.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxPacketFds)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got;
  do got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) return Error{ErrorKind::kTimeout, "nothing has come"};
  if (got < 0) return socket_error("recvmsg");
  packet.fds = take_descriptors(message);
  if (got == 0 && packet.fds.empty())
    return Error{ErrorKind::kUnavailable, "the other side closed the socket"};
  if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
    return Error{ErrorKind::kInvalid, "a packet larger than the protocol allows"};
  packet.bytes.resize(static_cast<size_t>(got));
  return packet;
}

}  // namespace sluice::wire
