#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

#include "wire/http/await.h"
#include "wire/http/http.h"
#include "wire/http/http_stream.h"

namespace sluice::wire {

struct HttpClient::State {
  Endpoint server;
  Nanos timeout;
  std::string token;
  asio::io_context io{1};
  std::unique_ptr<Stream> stream;
  beast::flat_buffer buffer;

  asio::awaitable<error_code> connect();
  asio::awaitable<error_code> exchange(const HttpRequest& request, HttpResponse& response);
  error_code run(asio::awaitable<error_code> work);
};

asio::awaitable<error_code> HttpClient::State::connect() {
  stream = std::make_unique<Stream>(asio::any_io_executor(io.get_executor()));
  stream->expires_after(timeout);
  if (!server.path.empty()) {
    const asio::local::stream_protocol::endpoint at(server.path);
    const auto [fault] = co_await stream->async_connect(at, kAwait);
    co_return fault;
  }
  asio::ip::tcp::resolver resolver(io);
  const auto [fault, found] =
      co_await resolver.async_resolve(server.host, std::to_string(server.port), kAwait);
  if (fault) co_return fault;
  error_code last = asio::error::host_not_found;
  for (const auto& entry : found) {
    const auto [refused] = co_await stream->async_connect(entry.endpoint(), kAwait);
    last = refused;
    if (!last) break;
  }
  co_return last;
}

asio::awaitable<error_code> HttpClient::State::exchange(const HttpRequest& request,
                                                        HttpResponse& response) {
  stream->expires_after(timeout);
  if (const auto [fault, n] = co_await http::async_write(*stream, request, kAwait); fault)
    co_return fault;
  http::response_parser<http::string_body> parser;
  parser.body_limit(boost::none);
  if (request.method() == http::verb::head) parser.skip(true);
  if (const auto [fault, n] = co_await http::async_read(*stream, buffer, parser, kAwait); fault)
    co_return fault;
  response = parser.release();
  co_return error_code{};
}

error_code HttpClient::State::run(asio::awaitable<error_code> work) {
  error_code outcome = asio::error::operation_aborted;
  io.restart();
  asio::co_spawn(io, std::move(work), [&](std::exception_ptr broken, error_code fault) {
    outcome = broken ? error_code(asio::error::fault) : fault;
  });
  io.run();
  return outcome;
}

HttpClient::HttpClient(Endpoint server, Nanos timeout) : state_(std::make_unique<State>()) {
  state_->server = std::move(server);
  state_->timeout = timeout;
}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;

void HttpClient::set_token(std::string bearer) {
  state_->token = std::move(bearer);
}

Result<HttpResponse> HttpClient::send(HttpRequest request) {
  State& s = *state_;
  request.set(http::field::host, s.server.path.empty() ? s.server.host : "localhost");
  if (!s.token.empty()) request.set(http::field::authorization, "Bearer " + s.token);
  request.prepare_payload();

  HttpResponse response;
  error_code fault;
  // A kept connection may have been closed meanwhile: then tries once more on a fresh one.
  for (int attempt = 0; attempt < 2; ++attempt) {
    const bool fresh = s.stream == nullptr;
    if (fresh) fault = s.run(s.connect());
    if (!fresh || !fault) fault = s.run(s.exchange(request, response));
    if (!fault) {
      if (!response.keep_alive()) s.stream.reset();
      return response;
    }
    s.stream.reset();
    s.buffer.clear();
    if (fresh || fault == beast::error::timeout) break;
  }
  const bool late = fault == beast::error::timeout;
  return Error{late ? ErrorKind::kTimeout : ErrorKind::kUnavailable,
               to_string(s.server) + ": " + fault.message()};
}

Result<HttpResponse> HttpClient::call(http::verb verb, std::string_view target, std::string body,
                                      std::string_view content_type) {
  HttpRequest request{verb, target, 11};
  if (!body.empty()) request.set(http::field::content_type, content_type);
  request.body() = std::move(body);
  return send(std::move(request));
}

Result<nlohmann::json> HttpClient::json(http::verb verb, std::string_view target,
                                        const nlohmann::json& body) {
  SLUICE_ASSIGN(response, call(verb, target, body.is_null() ? "" : body.dump()));
  auto parsed = response.body().empty() ? Result<nlohmann::json>(nlohmann::json())
                                        : parse_json(response.body());
  if (response.result_int() / 100 == 2) return parsed;
  std::string message = response.body();
  if (parsed.ok() && parsed->is_object() && parsed->contains("error") &&
      (*parsed)["error"].is_string())
    message = (*parsed)["error"].get<std::string>();
  return Error{error_kind(static_cast<int>(response.result_int())), message};
}

}  // namespace sluice::wire
