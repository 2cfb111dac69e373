#include "wire/http.h"

#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <unordered_set>

#include "wire/await.h"

namespace sluice::wire {
namespace {

namespace beast = boost::beast;
using boost::system::error_code;
using Socket = asio::generic::stream_protocol::socket;
using Stream = beast::basic_stream<asio::generic::stream_protocol, asio::any_io_executor>;

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      const int high = i + 2 < text.size() ? hex(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex(text[i + 2]) : -1;
      if (high < 0 || low < 0)
        return Error{ErrorKind::kInvalid, "target: broken percent escape in " + std::string(text)};
      out.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    } else {
      out.push_back(plus_is_space && text[i] == '+' ? ' ' : text[i]);
    }
  }
  return out;
}

}  // namespace

// ---- messages --------------------------------------------------------------------------------

std::string Target::get(std::string_view key, std::string otherwise) const {
  for (const auto& [name, value] : query)
    if (name == key) return value;
  return otherwise;
}

Result<Target> parse_target(std::string_view target) {
  Target out;
  const size_t mark = target.find('?');
  std::string_view path = target.substr(0, mark);
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (!part.empty()) {
      SLUICE_ASSIGN(decoded, percent_decode(part, false));
      out.path.push_back(std::move(decoded));
    }
    path = slash == path.npos ? "" : path.substr(slash + 1);
  }
  std::string_view query = mark == target.npos ? "" : target.substr(mark + 1);
  while (!query.empty()) {
    const size_t amp = query.find('&');
    const std::string_view pair = query.substr(0, amp);
    const size_t equals = pair.find('=');
    SLUICE_ASSIGN(key, percent_decode(pair.substr(0, equals), true));
    SLUICE_ASSIGN(value, percent_decode(equals == pair.npos ? "" : pair.substr(equals + 1), true));
    if (!key.empty()) out.query.emplace_back(std::move(key), std::move(value));
    query = amp == query.npos ? "" : query.substr(amp + 1);
  }
  return out;
}

HttpResponse text_response(std::string body, std::string_view content_type) {
  HttpResponse r{http::status::ok, 11};
  r.set(http::field::content_type, content_type);
  r.body() = std::move(body);
  return r;
}

HttpResponse json_response(const nlohmann::json& body, int status) {
  // Replaces what is not UTF-8: an answer must not fail because a name was odd.
  HttpResponse r = text_response(
      body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), "application/json");
  r.result(static_cast<unsigned>(status));
  return r;
}

HttpResponse error_response(int status, std::string_view message) {
  return json_response({{"error", std::string(message)}}, status);
}

HttpResponse error_response(const Error& e) {
  return error_response(http_status(e.kind), e.message);
}

int http_status(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalid:
      return 400;
    case ErrorKind::kDenied:
      return 403;
    case ErrorKind::kNotFound:
      return 404;
    case ErrorKind::kConflict:
      return 409;
    case ErrorKind::kExhausted:
      return 429;
    case ErrorKind::kUnavailable:
      return 503;
    case ErrorKind::kTimeout:
      return 504;
    case ErrorKind::kInternal:
      return 500;
  }
  return 500;
}

ErrorKind error_kind(int status) {
  switch (status) {
    case 401:
    case 403:
      return ErrorKind::kDenied;
    case 404:
      return ErrorKind::kNotFound;
    case 409:
      return ErrorKind::kConflict;
    case 429:
      return ErrorKind::kExhausted;
    case 502:
    case 503:
      return ErrorKind::kUnavailable;
    case 504:
      return ErrorKind::kTimeout;
    default:
      return status >= 400 && status < 500 ? ErrorKind::kInvalid : ErrorKind::kInternal;
  }
}

// ---- server ----------------------------------------------------------------------------------

namespace {

bool has_arrived(Stream& stream) {
  error_code gone;
  return stream.socket().available(gone) > 0 && !gone;
}

}  // namespace

struct HttpServer::State : std::enable_shared_from_this<HttpServer::State> {
  State(asio::io_context& context, Fd fd, HttpHandler h, HttpLimits l)
      : io(context), listening(context, fd.release()), handler(std::move(h)), limits(l) {}

  asio::awaitable<void> accept_all();
  bool accept_waiting();
  asio::awaitable<void> serve(Socket socket);
  asio::awaitable<bool> serve_one(Stream& stream, beast::flat_buffer& buffer);
  void refuse_connections();
  void close_idle();
  void say_when_idle();

  asio::io_context& io;
  asio::posix::stream_descriptor listening;
  const HttpHandler handler;
  const HttpLimits limits;
  std::unordered_set<Stream*> idle_streams;  // waiting for their next request
  int connections = 0;
  bool stopping = false;  // no new connections, and no request that has not arrived
  bool closed = false;    // the server is gone: no request at all
  std::function<void()> on_idle;
};

asio::awaitable<void> HttpServer::State::accept_all() {
  while (!stopping) {
    const auto [fault] =
        co_await listening.async_wait(asio::posix::stream_descriptor::wait_read, kAwait);
    if (fault || stopping) co_return;
    if (accept_waiting()) continue;
    // Out of descriptors: let some connections end before trying again.
    asio::steady_timer pause(io, Millis(50));
    co_await pause.async_wait(kAwait);
  }
}

// Everybody who waits; false: there was no descriptor, or no memory, for one.
bool HttpServer::State::accept_waiting() {
  for (;;) {
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    const int fd = ::accept4(listening.native_handle(), reinterpret_cast<sockaddr*>(&peer), &size,
                             SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
    Socket socket(io, asio::generic::stream_protocol(peer.ss_family, 0), fd);
    ++connections;
    asio::co_spawn(
        io,
        [self = shared_from_this(), s = std::move(socket)]() mutable {
          return self->serve(std::move(s));
        },
        asio::detached);
  }
}

asio::awaitable<void> HttpServer::State::serve(Socket socket) {
  const auto self = shared_from_this();
  const auto ended = std::shared_ptr<void>(nullptr, [this](void*) {
    --connections;
    say_when_idle();
  });
  Stream stream(std::move(socket));
  beast::flat_buffer buffer;
  buffer.reserve(64 * 1024);  // the default grows from 512 bytes: a thousand reads for a large body
  try {
    while (!stopping || buffer.size() > 0 || has_arrived(stream))
      if (!co_await serve_one(stream, buffer)) break;
  } catch (const std::exception&) {
    // A peer that broke off, or memory that ran out for this connection: close it.
  }
  idle_streams.erase(&stream);
}

// One request and its answer; false: close the connection.
asio::awaitable<bool> HttpServer::State::serve_one(Stream& stream, beast::flat_buffer& buffer) {
  http::request_parser<http::string_body> parser;
  parser.header_limit(static_cast<uint32_t>(limits.header_bytes));
  parser.body_limit(limits.body_bytes);

  idle_streams.insert(&stream);
  stream.expires_after(limits.idle);
  auto [fault, read] = co_await http::async_read_header(stream, buffer, parser, kAwait);
  idle_streams.erase(&stream);
  if (closed) co_return false;

  if (!fault && beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    co_await asio::async_write(stream, asio::buffer(kContinue), kAwait);
  }
  stream.expires_after(limits.request);
  if (!fault) std::tie(fault, read) = co_await http::async_read(stream, buffer, parser, kAwait);

  HttpResponse response;
  bool keep = false;
  if (fault == http::error::end_of_stream || fault == beast::error::timeout ||
      fault == asio::error::operation_aborted || fault == asio::error::connection_reset) {
    co_return false;
  } else if (fault == http::error::body_limit) {
    response = error_response(
        413, "body: larger than the " + std::to_string(limits.body_bytes) + " bytes allowed");
  } else if (fault == http::error::header_limit) {
    response = error_response(
        431, "head: larger than the " + std::to_string(limits.header_bytes) + " bytes allowed");
  } else if (fault) {
    response = error_response(400, "HTTP: " + fault.message());
  } else {
    HttpRequest request = parser.release();
    keep = request.keep_alive();
    const bool head = request.method() == http::verb::head;
    const unsigned version = request.version();
    try {
      stream.expires_never();
      response = co_await handler(std::move(request));
    } catch (const std::exception& e) {
      response = error_response(500, std::string("internal: ") + e.what());
    }
    response.version(version);
    if (head) {
      response.content_length(response.body().size());
      response.body().clear();
    }
  }
  keep = keep && !stopping;
  response.keep_alive(keep);
  if (!response.has_content_length()) response.prepare_payload();
  stream.expires_after(limits.request);
  http::serializer<false, http::string_body> serializer(response);
  const auto [write_fault, written] = co_await http::async_write(stream, serializer, kAwait);
  co_return keep && !write_fault;
}

void HttpServer::State::say_when_idle() {
  if (stopping && connections == 0 && on_idle) asio::post(io, std::exchange(on_idle, nullptr));
}

// A unix socket that is shut down refuses new connections and hands out those that wait; one of TCP
// forgets them.
void HttpServer::State::refuse_connections() {
  int domain = 0;
  socklen_t size = sizeof(domain);
  ::getsockopt(listening.native_handle(), SOL_SOCKET, SO_DOMAIN, &domain, &size);
  if (domain == AF_UNIX) ::shutdown(listening.native_handle(), SHUT_RD);
  accept_waiting();
  error_code ignored;
  listening.close(ignored);
}

void HttpServer::State::close_idle() {
  for (Stream* stream : idle_streams)
    if (closed || !has_arrived(*stream)) stream->cancel();
}

HttpServer::HttpServer(asio::io_context& io, Fd listening, HttpHandler handler, HttpLimits limits) {
  const int flags = ::fcntl(listening.get(), F_GETFL);
  ::fcntl(listening.get(), F_SETFL, flags | O_NONBLOCK);
  state_ = std::make_shared<State>(io, std::move(listening), std::move(handler), limits);
  asio::co_spawn(
      io, [s = state_] { return s->accept_all(); }, asio::detached);
}

HttpServer::~HttpServer() {
  state_->stopping = true;
  error_code ignored;
  state_->listening.close(ignored);
  state_->on_idle = nullptr;
  state_->closed = true;
  state_->close_idle();
}

void HttpServer::drain(std::function<void()> idle) {
  if (std::exchange(state_->stopping, true)) return;
  state_->on_idle = std::move(idle);
  asio::post(state_->io, [s = state_] {
    s->refuse_connections();
    s->close_idle();
    s->say_when_idle();
  });
}

// ---- client ----------------------------------------------------------------------------------

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
  // A kept connection may have been closed meanwhile: then once more on a fresh one.
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
