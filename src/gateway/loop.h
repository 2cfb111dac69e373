// A loop: one io_context on one thread, with what its sessions share: kept connections to
// instances, buffers, and a sweep that ends what is overdue. Everything but post() belongs to its
// thread.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "gateway/dispatcher.h"

namespace sluice::gateway {

namespace asio = boost::asio;
namespace beast = boost::beast;

// Concrete types, not any_io_executor: measurably cheaper per operation.
using Executor = asio::io_context::executor_type;
template <class T>
using Awaitable = asio::awaitable<T, Executor>;
using Socket = asio::basic_stream_socket<asio::generic::stream_protocol, Executor>;
using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>, Executor>;
inline constexpr auto kAwait = asio::as_tuple(asio::use_awaitable_t<Executor>{});

// A connection to an instance, kept between requests.
struct Connection {
  explicit Connection(asio::io_context& io) : socket(io) { buffer.reserve(64 * 1024); }
  Socket socket;
  beast::flat_buffer buffer;
};

// Something that can be overdue or deserted; the sweep looks at it every 20 ms.
class Watched {
 public:
  virtual ~Watched() = default;
  virtual void sweep(Time now) = 0;
};

class Loop {
 public:
  Loop(Dispatcher& dispatcher, const Clock& clock) : dispatcher(dispatcher), clock(clock) {}

  // A kept connection to that socket, or nothing. Newest first: the warmest.
  std::unique_ptr<Connection> kept(const std::string& socket);
  void keep(const std::string& socket, std::unique_ptr<Connection> connection);
  // Opens one; the error says why not.
  Awaitable<Result<std::unique_ptr<Connection>>> open(const std::string& socket);

  // Sweeps until stop(); spawn once.
  Awaitable<void> sweep_all();
  void stop() { stopping_ = true; }
  bool stopping() const { return stopping_; }

  Time now() const { return clock.now(); }

  asio::io_context io{1};
  Dispatcher& dispatcher;
  const Clock& clock;
  std::unordered_set<Watched*> sessions;

 private:
  std::map<std::string, std::vector<std::unique_ptr<Connection>>> kept_;
  bool stopping_ = false;
};

}  // namespace sluice::gateway
