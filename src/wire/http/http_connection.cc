#include "wire/http/http_connection.h"

#include <netinet/tcp.h>

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

#include "wire/http/await.h"

namespace sluice::wire {
namespace {

using Secured = asio::ssl::stream<Stream&>;

// A peer that has gone without a word is found out within 25 s.
void keep_alive(int socket) {
  const auto set = [socket](int level, int name, int value) {
    ::setsockopt(socket, level, name, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
}

}  // namespace

struct HttpConnection::State {
  State(asio::io_context& context, const HttpServerAddress& s)
      : io(context), server(s), stream(asio::any_io_executor(context.get_executor())) {}

  asio::awaitable<error_code> connect();
  asio::awaitable<error_code> secure();
  asio::awaitable<error_code> exchange(auto& over, const HttpRequest& request,
                                       HttpResponse& response);
  asio::awaitable<error_code> read_parts(auto& over, const HttpRequest& request, HttpResponse& head,
                                         const std::function<void(std::string_view)>& on_part,
                                         Nanos silent);

  asio::io_context& io;
  const HttpServerAddress server;
  Stream stream;
  std::unique_ptr<Secured> secured;  // over `stream`, with TLS
  beast::flat_buffer buffer;
};

asio::awaitable<error_code> HttpConnection::State::connect() {
  if (!server.at.path.empty()) {
    const asio::local::stream_protocol::endpoint at(server.at.path);
    const auto [fault] = co_await stream.async_connect(at, kAwait);
    co_return fault;
  }
  asio::ip::tcp::resolver resolver(io);
  const auto [fault, found] =
      co_await resolver.async_resolve(server.at.host, std::to_string(server.at.port), kAwait);
  if (fault) co_return fault;
  error_code last = asio::error::host_not_found;
  for (const auto& entry : found) {
    const auto [refused] = co_await stream.async_connect(entry.endpoint(), kAwait);
    last = refused;
    if (!last) break;
  }
  if (!last) keep_alive(stream.socket().native_handle());
  co_return last;
}

asio::awaitable<error_code> HttpConnection::State::secure() {
  const std::string& name = server.server_name.empty() ? server.at.host : server.server_name;
  secured = std::make_unique<Secured>(stream, *server.tls);
  secured->set_verify_callback(asio::ssl::host_name_verification(name));
  error_code is_name;
  if (asio::ip::make_address(name, is_name); is_name)
    SSL_set_tlsext_host_name(secured->native_handle(), name.c_str());
  const auto [fault] = co_await secured->async_handshake(asio::ssl::stream_base::client, kAwait);
  co_return fault;
}

asio::awaitable<error_code> HttpConnection::State::exchange(auto& over, const HttpRequest& request,
                                                            HttpResponse& response) {
  if (const auto [fault, n] = co_await http::async_write(over, request, kAwait); fault)
    co_return fault;
  http::response_parser<http::string_body> parser;
  parser.body_limit(boost::none);
  if (server.most > 0) parser.body_limit(server.most);
  if (request.method() == http::verb::head) parser.skip(true);
  if (const auto [fault, n] = co_await http::async_read(over, buffer, parser, kAwait); fault)
    co_return fault;
  response = parser.release();
  co_return error_code{};
}

asio::awaitable<error_code> HttpConnection::State::read_parts(
    auto& over, const HttpRequest& request, HttpResponse& head,
    const std::function<void(std::string_view)>& on_part, Nanos silent) {
  if (const auto [fault, n] = co_await http::async_write(over, request, kAwait); fault)
    co_return fault;
  http::response_parser<http::buffer_body> parser;
  parser.body_limit(boost::none);
  if (const auto [fault, n] = co_await http::async_read_header(over, buffer, parser, kAwait); fault)
    co_return fault;
  head.base() = parser.get().base();
  std::array<char, 65536> room;
  while (!parser.is_done()) {
    stream.expires_after(silent);
    parser.get().body().data = room.data();
    parser.get().body().size = room.size();
    const auto [fault, n] = co_await http::async_read_some(over, buffer, parser, kAwait);
    if (fault && fault != http::error::need_buffer) co_return fault;
    if (const size_t size = room.size() - parser.get().body().size; size > 0)
      on_part({room.data(), size});
  }
  co_return error_code{};
}

HttpConnection::HttpConnection(asio::io_context& io, const HttpServerAddress& server)
    : state_(std::make_unique<State>(io, server)) {}
HttpConnection::~HttpConnection() = default;

asio::awaitable<error_code> HttpConnection::connect(Nanos timeout) {
  state_->stream.expires_after(timeout);
  error_code fault = co_await state_->connect();
  if (!fault && state_->server.tls) fault = co_await state_->secure();
  co_return fault;
}

asio::awaitable<error_code> HttpConnection::exchange(const HttpRequest& request,
                                                     HttpResponse& response, Nanos timeout) {
  State& s = *state_;
  s.stream.expires_after(timeout);
  if (s.secured) co_return co_await s.exchange(*s.secured, request, response);
  co_return co_await s.exchange(s.stream, request, response);
}

asio::awaitable<error_code> HttpConnection::stream(
    const HttpRequest& request, HttpResponse& head,
    std::function<void(std::string_view part)> on_part, Nanos silent) {
  State& s = *state_;
  s.stream.expires_after(silent);
  if (s.secured) co_return co_await s.read_parts(*s.secured, request, head, on_part, silent);
  co_return co_await s.read_parts(s.stream, request, head, on_part, silent);
}

void HttpConnection::close() {
  state_->stream.close();
}

}  // namespace sluice::wire
