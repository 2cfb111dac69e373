#include "gateway/io.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace sluice::gateway {
namespace {

error_code system_fault() {
  return {errno, boost::system::system_category()};
}

size_t size_of(Parts parts) {
  size_t sum = 0;
  for (const std::string_view part : parts) sum += part.size();
  return sum;
}

// Sends as much as possible without waiting. Returns its size.
size_t send_now(Socket& to, Parts parts, error_code& fault) {
  std::array<iovec, kMostParts> vectors;
  msghdr message{};
  message.msg_iov = vectors.data();
  for (const std::string_view part : parts)
    vectors[message.msg_iovlen++] = {const_cast<char*>(part.data()), part.size()};
  const ssize_t n = ::sendmsg(to.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n >= 0) return static_cast<size_t>(n);
  if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) fault = system_fault();
  return 0;
}

// The parts that are still to be sent.
class Rest {
 public:
  explicit Rest(Parts parts) : size_(parts.size()) {
    SLUICE_CHECK(parts.size() <= kMostParts, "more parts than anybody sends");
    std::copy(parts.begin(), parts.end(), left_.begin());
  }
  void sent(size_t n) {
    for (std::string_view& part : left_) {
      const size_t gone = std::min(n, part.size());
      n -= gone;
      part.remove_prefix(gone);
    }
  }
  Parts parts() const { return {left_.data(), size_}; }
  bool empty() const { return size_of(parts()) == 0; }

 private:
  std::array<std::string_view, kMostParts> left_;
  size_t size_;
};

std::string joined(Parts parts) {
  std::string all;
  all.reserve(size_of(parts));
  for (const std::string_view part : parts) all += part;
  return all;
}

}  // namespace

Awaitable<Received> PlainStream::receive(std::span<char> room) {
  const auto [fault, n] =
      co_await socket_.async_read_some(asio::buffer(room.data(), room.size()), kAwait);
  co_return Received(fault, n);
}

Awaitable<Received> PlainStream::receive_scratch(std::span<char> room) {
  for (;;) {
    const ssize_t n = ::recv(socket_.native_handle(), room.data(), room.size(), MSG_DONTWAIT);
    if (n > 0) co_return Received(error_code{}, static_cast<size_t>(n));
    if (n == 0) co_return Received(asio::error::eof, 0);
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) co_return Received(system_fault(), 0);
    const auto [fault] = co_await socket_.async_wait(Socket::wait_read, kAwait);
    if (fault) co_return Received(fault, 0);
  }
}

Awaitable<error_code> PlainStream::send(Parts parts) {
  Rest rest(parts);
  for (;;) {
    error_code fault;
    rest.sent(send_now(socket_, rest.parts(), fault));
    if (fault || rest.empty()) co_return fault;
    const auto [broken] = co_await socket_.async_wait(Socket::wait_write, kAwait);
    if (broken) co_return broken;
  }
}

Awaitable<error_code> PlainStream::send_scratch(Parts parts) {
  Rest rest(parts);
  error_code fault;
  rest.sent(send_now(socket_, parts, fault));
  if (fault || rest.empty()) co_return fault;
  const std::string kept = joined(rest.parts());
  const std::array<std::string_view, 1> one{kept};
  co_return co_await send(one);
}

bool PlainStream::send_at_once(std::string_view text) {
  error_code fault;
  const size_t sent = send_now(socket_, {&text, 1}, fault);
  return !fault && (sent == 0 || sent == text.size());  // 0: its buffer is full
}

Awaitable<Received> TlsStream::receive(std::span<char> room) {
  const auto [fault, n] =
      co_await socket_.async_read_some(asio::buffer(room.data(), room.size()), kAwait);
  co_return Received(fault, n);
}

Awaitable<Received> TlsStream::receive_scratch(std::span<char> room) {
  const size_t most = std::min(room.size(), record_.size());
  const auto [fault, n] =
      co_await socket_.async_read_some(asio::buffer(record_.data(), most), kAwait);
  std::memcpy(room.data(), record_.data(), n);
  co_return Received(fault, n);
}

// In one piece: a record per part would cost more than the copy.
Awaitable<error_code> TlsStream::send(Parts parts) {
  const std::string all = joined(parts);
  const auto [fault, n] = co_await asio::async_write(socket_, asio::buffer(all), kAwait);
  co_return fault;
}

Awaitable<error_code> TlsStream::send_scratch(Parts parts) {
  return send(parts);
}

}  // namespace sluice::gateway
