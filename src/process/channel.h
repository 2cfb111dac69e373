// One SEQPACKET socket to a process of ours, on the daemon's event loop. Zygote and templates
// answer requests in their order (wire/zygote.h), so several may be in flight.
//
// Belongs to one io_context with one thread. Never blocks: send() fails if a stopped peer's socket
// is full.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <memory>

#include "base/clock.h"
#include "base/fd.h"
#include "wire/zygote.h"

namespace sluice::node {

namespace asio = boost::asio;

class Channel {
 public:
  Channel() = default;  // closed
  Channel(asio::io_context& io, Fd socket);
  ~Channel();  // closes; waiters get kUnavailable
  Channel(Channel&&) noexcept;
  Channel& operator=(Channel&&) noexcept;

  bool open() const;

  template <wire::ZygoteMessage M>
  Result<void> send(const M& message, std::span<const int> fds = {}) {
    if (!open()) return Error{ErrorKind::kUnavailable, "the other side is gone"};
    return wire::send_message(socket(), message, fds);
  }

  // Returns the next message; waiters are served in order. Returns kTimeout after `patience`; the
  // order of answers is lost then, and the channel closed.
  asio::awaitable<Result<wire::Packet>> receive(Nanos patience);

 private:
  struct State;
  int socket() const;

  std::shared_ptr<State> state_;
};

// The answer as M; a Failed message as its error.
template <wire::ZygoteMessage M>
Result<M> answer_as(const Result<wire::Packet>& packet, size_t descriptors = 0) {
  if (!packet.ok()) return packet.error();
  SLUICE_ASSIGN(kind, wire::kind_of(*packet));
  if (kind == wire::ZygoteKind::kFailed) {
    SLUICE_ASSIGN(failed, wire::message_of<wire::Failed>(*packet));
    return wire::error_of(failed);
  }
  if (kind != M{}.head.kind) return Error{ErrorKind::kInternal, "the runtime answered out of turn"};
  return wire::message_of<M>(*packet, descriptors);
}

// A pair: ours (close-on-exec, never blocks) and theirs (close-on-exec).
struct SocketPair {
  Fd ours, theirs;
};
Result<SocketPair> make_socket_pair();

// Lets Asio watch a copy of the descriptor. Returns false for lack of descriptors, watches or
// memory.
bool watch_copy(asio::posix::stream_descriptor& watched, int fd);

// Returns when the process behind the pidfd has ended.
asio::awaitable<void> wait_for_end(asio::io_context& io, int pidfd);

// The same, but after `patience` at the latest. Returns whether it has ended.
asio::awaitable<bool> ends_within(asio::io_context& io, int pidfd, Nanos patience);

}  // namespace sluice::node
