#include "process/channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>

#include "wire/http/await.h"

namespace sluice::node {
namespace {

using wire::kAwait;

constexpr Nanos kLookAgain = Millis(500);  // for free descriptors

// A coroutine that waits for the next message. The timer is the wait; cancelling it answers it.
struct Waiter {
  explicit Waiter(asio::io_context& io) : timer(io) {}
  asio::steady_timer timer;
  std::optional<Result<wire::Packet>> answer;
};

}  // namespace

// Asio may report a descriptor as ready that is not. It passes the state of a closed descriptor on
// to the next that is opened, with a fetched event of the old one. So every waiter checks again.

struct Channel::State : std::enable_shared_from_this<State> {
  // Closed if Asio cannot watch the socket, for lack of memory or of watches.
  State(asio::io_context& context, Fd fd) : io(context), descriptor(context) {
    boost::system::error_code fault;
    descriptor.assign(fd.get(), fault);
    if (!fault) fd.release();
  }

  asio::awaitable<void> read_all();
  void deliver(Result<wire::Packet> packet);
  void close(const Error& why);

  asio::io_context& io;
  asio::posix::stream_descriptor descriptor;
  std::deque<std::shared_ptr<Waiter>> waiters;
  std::deque<wire::Packet> unclaimed;  // arrived before any wait
};

asio::awaitable<void> Channel::State::read_all() {
  const auto self = shared_from_this();
  for (;;) {
    const auto [fault] =
        co_await descriptor.async_wait(asio::posix::stream_descriptor::wait_read, kAwait);
    if (fault) co_return;
    Result<wire::Packet> packet = wire::receive_packet(descriptor.native_handle());
    if (!packet.ok() && packet.error().kind == ErrorKind::kTimeout) continue;
    if (!packet.ok() && packet.error().kind == ErrorKind::kUnavailable)
      co_return close(packet.error());
    deliver(std::move(packet));
  }
}

void Channel::State::deliver(Result<wire::Packet> packet) {
  if (waiters.empty()) {
    if (packet.ok()) unclaimed.push_back(std::move(*packet));
    return;
  }
  const auto waiter = std::move(waiters.front());
  waiters.pop_front();
  waiter->answer = std::move(packet);
  waiter->timer.cancel();
}

void Channel::State::close(const Error& why) {
  boost::system::error_code ignored;
  descriptor.close(ignored);
  while (!waiters.empty()) deliver(why);
}

Channel::Channel(asio::io_context& io, Fd socket)
    : state_(std::make_shared<State>(io, std::move(socket))) {
  asio::co_spawn(
      io, [s = state_] { return s->read_all(); }, asio::detached);
}

Channel::~Channel() {
  if (state_) state_->close({ErrorKind::kUnavailable, "the channel was closed"});
}
Channel::Channel(Channel&&) noexcept = default;
Channel& Channel::operator=(Channel&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

bool Channel::open() const {
  return state_ && state_->descriptor.is_open();
}

int Channel::socket() const {
  return state_->descriptor.native_handle();
}

asio::awaitable<Result<wire::Packet>> Channel::receive(Nanos patience) {
  const auto state = state_;  // the channel may be moved or die during the wait
  if (state && !state->unclaimed.empty()) {
    wire::Packet packet = std::move(state->unclaimed.front());
    state->unclaimed.pop_front();
    co_return packet;
  }
  if (!open()) co_return Error{ErrorKind::kUnavailable, "the other side is gone"};
  const auto waiter = std::make_shared<Waiter>(state->io);
  state->waiters.push_back(waiter);
  waiter->timer.expires_after(patience);
  co_await waiter->timer.async_wait(kAwait);
  if (!waiter->answer) {
    std::erase(state->waiters, waiter);
    state->close({ErrorKind::kUnavailable, "the other side did not answer in time"});
    co_return Error{ErrorKind::kTimeout,
                    "no answer within " + std::to_string(patience / Seconds(1)) + " s"};
  }
  co_return std::move(*waiter->answer);
}

Result<SocketPair> make_socket_pair() {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return Error{ErrorKind::kInternal, std::string("socketpair: ") + std::strerror(errno)};
  SocketPair made{Fd(pair[0]), Fd(pair[1])};
  fcntl(made.ours.get(), F_SETFL, O_NONBLOCK);
  return made;
}

bool watch_copy(asio::posix::stream_descriptor& watched, int fd) {
  Fd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return false;
  boost::system::error_code fault;
  watched.assign(copy.get(), fault);
  if (fault) return false;
  copy.release();
  return true;
}

asio::awaitable<void> wait_for_end(asio::io_context& io, int pidfd) {
  // A descriptor of its own: the owner's may be closed before this ends.
  asio::posix::stream_descriptor watched(io);
  asio::steady_timer pause(io);
  while (!watch_copy(watched, pidfd)) {
    pause.expires_after(kLookAgain);
    co_await pause.async_wait(kAwait);
  }
  pollfd ended{watched.native_handle(), POLLIN, 0};
  for (bool looked_in_vain = true; looked_in_vain;) {
    const auto [fault] =
        co_await watched.async_wait(asio::posix::stream_descriptor::wait_read, kAwait);
    looked_in_vain = !fault && ::poll(&ended, 1, 0) == 0;
  }
}

asio::awaitable<bool> ends_within(asio::io_context& io, int pidfd, Nanos patience) {
  const auto watched = std::make_shared<asio::posix::stream_descriptor>(io);
  if (!watch_copy(*watched, pidfd)) {
    asio::steady_timer pause(io, patience);
    co_await pause.async_wait(kAwait);
    pollfd now{pidfd, POLLIN, 0};
    co_return ::poll(&now, 1, 0) == 1;
  }
  const auto late = std::make_shared<bool>(false);
  asio::steady_timer limit(io, patience);
  limit.async_wait([watched, late](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    *late = true;
    watched->cancel();
  });
  pollfd ended{watched->native_handle(), POLLIN, 0};
  while (::poll(&ended, 1, 0) == 0 && !*late)
    co_await watched->async_wait(asio::posix::stream_descriptor::wait_read, kAwait);
  co_return ended.revents != 0;
}

}  // namespace sluice::node
