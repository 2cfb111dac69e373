// A loop's byte streams, plain and TLS. Memory may be the caller's own for the whole call, or
// scratch: shared by all sessions of a loop, never held across a wait, so that one buffer serves
// them all and stays in the processor's cache.
//
// Everything here runs on the stream's loop.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::gateway {

namespace asio = boost::asio;
using boost::system::error_code;

// Concrete types, not any_io_executor: measurably cheaper per operation.
using Executor = asio::io_context::executor_type;
template <class T>
using Awaitable = asio::awaitable<T, Executor>;
using Socket = asio::basic_stream_socket<asio::generic::stream_protocol, Executor>;
using TlsSocket = asio::ssl::stream<Socket>;
using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>, Executor>;
inline constexpr auto kAwait = asio::as_tuple(asio::use_awaitable_t<Executor>{});

inline constexpr size_t kMostParts = 5;
using Parts = std::span<const std::string_view>;  // at most kMostParts
using Received = std::pair<error_code, size_t>;

class Stream {
 public:
  virtual ~Stream() = default;

  // Receives at least one byte, or a fault (asio::error::eof: the peer sends no more). The buffer
  // must stay until then …
  virtual Awaitable<Received> receive(std::span<char> room) = 0;
  // … or may be scratch: it is filled between the last wait and the return.
  virtual Awaitable<Received> receive_scratch(std::span<char> room) = 0;
  // Sends all parts. They must stay as they are until then …
  virtual Awaitable<error_code> send(Parts parts) = 0;
  // … or may lie in scratch: what cannot be sent at once is copied.
  virtual Awaitable<error_code> send_scratch(Parts parts) = 0;
  // Sends a short text without waiting. Returns false if the connection cannot be used after that.
  // TLS cannot send without waiting and sends nothing.
  // REQUIRES: no send() is in progress.
  virtual bool send_at_once(std::string_view text) = 0;
  // For its options, and to cancel waiting calls.
  virtual Socket& socket() = 0;
  virtual bool is_tls() const = 0;
};

class PlainStream final : public Stream {
 public:
  explicit PlainStream(Socket socket) : socket_(std::move(socket)) {}
  Awaitable<Received> receive(std::span<char> room) override;
  Awaitable<Received> receive_scratch(std::span<char> room) override;
  Awaitable<error_code> send(Parts parts) override;
  Awaitable<error_code> send_scratch(Parts parts) override;
  bool send_at_once(std::string_view text) override;
  Socket& socket() override { return socket_; }
  bool is_tls() const override { return false; }

 private:
  Socket socket_;
};

class TlsStream final : public Stream {
 public:
  // Takes a socket whose handshake is done.
  explicit TlsStream(TlsSocket socket) : socket_(std::move(socket)), record_(kRecord) {}
  Awaitable<Received> receive(std::span<char> room) override;
  Awaitable<Received> receive_scratch(std::span<char> room) override;
  Awaitable<error_code> send(Parts parts) override;
  Awaitable<error_code> send_scratch(Parts parts) override;
  bool send_at_once(std::string_view) override { return true; }
  Socket& socket() override { return socket_.next_layer(); }
  bool is_tls() const override { return true; }

 private:
  static constexpr size_t kRecord = 16 * 1024;  // TLS's largest
  TlsSocket socket_;
  std::vector<char> record_;  // Asio decrypts into it across a wait
};

}  // namespace sluice::gateway
