// One message and its file descriptors over a SOCK_SEQPACKET socket: how our processes hand each
// other pages, sockets and pidfds. Blocking, restarted after signals. Thread-safe per socket and
// direction, because the kernel keeps packets whole.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace sluice::wire {

inline constexpr size_t kMaxPacketBytes = 16384;
inline constexpr size_t kMaxPacketFds = 8;

struct Packet {
  std::vector<std::byte> bytes;
  std::vector<Fd> fds;  // close-on-exec
};

// Returns kUnavailable if the other side is gone.
Result<void> send_packet(int socket, std::span<const std::byte> bytes,
                         std::span<const int> fds = {});

// Returns kUnavailable if the other side is gone; kInvalid for a packet over the limits above (it
// is consumed, its descriptors closed); kTimeout if none has come and the socket does not block.
Result<Packet> receive_packet(int socket);

}  // namespace sluice::wire
