#include "gateway/loop.h"

#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include "wire/http.h"

namespace sluice::gateway {
namespace {

constexpr size_t kMostKept = 256;  // per instance; more are closed
constexpr Nanos kSweep = Millis(20);

// The instance closed it, or sent something nobody asked for: not to be used again.
bool stale(Socket& socket) {
  char byte;
  const ssize_t n = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

}  // namespace

std::unique_ptr<Connection> Loop::kept(const std::string& socket) {
  const auto found = kept_.find(socket);
  if (found == kept_.end()) return nullptr;
  while (!found->second.empty()) {
    std::unique_ptr<Connection> c = std::move(found->second.back());
    found->second.pop_back();
    if (!stale(c->socket)) return c;
  }
  kept_.erase(found);
  return nullptr;
}

void Loop::keep(const std::string& socket, std::unique_ptr<Connection> connection) {
  auto& list = kept_[socket];
  if (list.size() < kMostKept && connection->buffer.size() == 0)
    list.push_back(std::move(connection));
}

Awaitable<Result<std::unique_ptr<Connection>>> Loop::open(const std::string& socket) {
  const Result<wire::Endpoint> at = wire::parse_endpoint(socket);
  if (!at.ok()) co_return at.error();
  auto c = std::make_unique<Connection>(io);
  asio::generic::stream_protocol::endpoint to;
  if (!at->path.empty()) {
    to = asio::local::stream_protocol::endpoint(at->path);
  } else {
    boost::system::error_code fault;
    const auto ip = asio::ip::make_address(at->host, fault);
    if (fault) co_return Error{ErrorKind::kInvalid, socket + ": no IP address"};
    to = asio::ip::tcp::endpoint(ip, at->port);
  }
  const auto [fault] = co_await c->socket.async_connect(to, kAwait);
  if (fault) co_return Error{ErrorKind::kUnavailable, socket + ": " + fault.message()};
  if (at->path.empty()) {
    boost::system::error_code ignored;
    c->socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  }
  co_return c;
}

Awaitable<void> Loop::sweep_all() {
  Timer timer(io);
  while (!stopping_ || !sessions.empty()) {
    timer.expires_after(kSweep);
    co_await timer.async_wait(kAwait);
    const Time now = clock.now();
    for (Watched* w : sessions) w->sweep(now);  // marks and cancels; removes nobody
    dispatcher.tick(now);
  }
}

}  // namespace sluice::gateway
