#include <fcntl.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <climits>
#include <tuple>
#include <unordered_set>

#include "wire/http/await.h"
#include "wire/http/http.h"
#include "wire/http/http_stream.h"

namespace sluice::wire {
namespace {

using Parser = http::request_parser<http::string_body>;

constexpr int kAcceptedATurn = 8;      // then the open connections take their turn
constexpr Nanos kLinger = Seconds(1);  // for the rest of an unwanted body
constexpr size_t kRead = size_t{64} << 10;

enum class Phase { kAwaitsRequest, kAwaitsBody, kInHandler, kAnswerUntaken };
// What follows an answer. kDiscardRest: a close with part of the request unread.
enum class After { kNextRequest, kClose, kDiscardRest };

struct Connection {
  explicit Connection(Socket socket) : stream(std::move(socket)) {}

  Stream stream;
  beast::flat_buffer buffer;
  Phase phase = Phase::kAwaitsRequest;
  uint64_t since = 0;    // when the phase began, in phases of all connections
  size_t memory = 0;     // of the server's memory_bytes
  bool evicted = false;  // closed in favour of another

  bool has_arrived() {
    error_code gone;
    return stream.socket().available(gone) > 0 && !gone;
  }
};

bool is_gone(const error_code& fault) {
  return fault == http::error::end_of_stream || fault == beast::error::timeout ||
         fault == asio::error::operation_aborted || fault == asio::error::connection_reset ||
         fault == asio::error::bad_descriptor;
}

}  // namespace

struct HttpServer::State : std::enable_shared_from_this<HttpServer::State> {
  State(asio::io_context& context, Fd fd, HttpHandler h, HttpLimits l, HttpAdmission a)
      : io(context),
        listening(context, fd.release()),
        handler(std::move(h)),
        admission(std::move(a)),
        limits(l),
        room(context) {}

  asio::awaitable<void> accept_all();
  bool accept_waiting(int most);
  asio::awaitable<void> serve(std::unique_ptr<Connection> connection);
  asio::awaitable<bool> serve_one(Connection& c);
  asio::awaitable<bool> answer(Connection& c, HttpResponse response, After after);
  asio::awaitable<HttpResponse> handle(Connection& c, HttpRequest request);
  asio::awaitable<void> discard_rest(Connection& c);
  std::optional<HttpResponse> refusal(Connection& c, Parser& parser);
  HttpResponse error_of(const error_code& fault) const;
  void enter(Connection& c, Phase phase);
  bool take_memory(Connection& c, size_t bytes);
  void give_memory_back(Connection& c);
  Connection* idlest(const Connection* except, bool with_memory) const;
  void evict(Connection& c);
  bool is_full() const;
  void forget(Connection& c);
  void refuse_connections();
  void close_idle();
  void say_when_idle();

  asio::io_context& io;
  asio::posix::stream_descriptor listening;
  const HttpHandler handler;
  const HttpAdmission admission;
  const HttpLimits limits;
  std::unordered_set<Connection*> open;
  asio::steady_timer room;  // cancelled when a connection ends or may be closed again
  uint64_t phases = 0;
  size_t memory = 0;
  unsigned accepted = 0;  // since the start
  int connections = 0;    // including those closed and not unwound yet
  bool stopping = false;  // no new connections, and no requests that have not arrived
  bool closed = false;    // the server is gone: no requests at all
  std::function<void()> on_idle;
};

// ---- what is held ----------------------------------------------------------------------------

void HttpServer::State::enter(Connection& c, Phase phase) {
  if (std::exchange(c.phase, phase) == Phase::kInHandler) room.cancel();
  c.since = ++phases;
}

// Returns false if `bytes` do not fit even after closing other connections.
bool HttpServer::State::take_memory(Connection& c, size_t bytes) {
  if (bytes > limits.memory_bytes) return false;
  while (memory + bytes > limits.memory_bytes) {
    Connection* other = idlest(&c, true);
    if (other == nullptr) return false;
    evict(*other);
  }
  memory += bytes;
  c.memory += bytes;
  return true;
}

void HttpServer::State::give_memory_back(Connection& c) {
  memory -= std::exchange(c.memory, 0);
}

// Returns nullptr if no connection may be closed.
Connection* HttpServer::State::idlest(const Connection* except, bool with_memory) const {
  Connection* found = nullptr;
  for (Connection* c : open) {
    if (c == except || c->phase == Phase::kInHandler || (with_memory && c->memory == 0)) continue;
    if (found == nullptr || c->since < found->since) found = c;
  }
  return found;
}

void HttpServer::State::evict(Connection& c) {
  c.evicted = true;
  c.stream.close();
  forget(c);
}

bool HttpServer::State::is_full() const {
  return open.size() >= limits.connections && idlest(nullptr, false) == nullptr;
}

void HttpServer::State::forget(Connection& c) {
  give_memory_back(c);
  if (open.erase(&c) > 0) room.cancel();
}

// ---- connections -----------------------------------------------------------------------------

asio::awaitable<void> HttpServer::State::accept_all() {
  while (!stopping) {
    const auto [fault] =
        co_await listening.async_wait(asio::posix::stream_descriptor::wait_read, kAwait);
    if (fault || stopping) co_return;
    if (is_full()) {
      room.expires_at(asio::steady_timer::time_point::max());
      co_await room.async_wait(kAwait);
      continue;
    }
    const unsigned before = accepted;
    const bool more = accept_waiting(kAcceptedATurn);
    // Out of descriptors: let some connections end before trying again.
    const Nanos rest = more ? limits.gap * (accepted - before) : Nanos(Millis(50));
    if (rest == Nanos(0)) continue;
    asio::steady_timer pause(io, rest);
    co_await pause.async_wait(kAwait);
  }
}

// Returns false for lack of a descriptor, or of memory, for a connection.
bool HttpServer::State::accept_waiting(int most) {
  for (int n = 0; n < most; ++n) {
    if (!stopping && is_full()) return true;
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    const int fd = ::accept4(listening.native_handle(), reinterpret_cast<sockaddr*>(&peer), &size,
                             SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
    Socket socket(io);
    boost::system::error_code unwatched;
    socket.assign(asio::generic::stream_protocol(peer.ss_family, 0), fd, unwatched);
    if (unwatched) {
      ::close(fd);
      return false;
    }
    auto c = std::make_unique<Connection>(std::move(socket));
    if (!stopping && open.size() >= limits.connections) evict(*idlest(nullptr, false));
    enter(*c, Phase::kAwaitsRequest);
    open.insert(c.get());
    ++connections;
    ++accepted;
    asio::co_spawn(
        io,
        [self = shared_from_this(), c = std::move(c)]() mutable {
          return self->serve(std::move(c));
        },
        asio::detached);
  }
  return true;
}

asio::awaitable<void> HttpServer::State::serve(std::unique_ptr<Connection> connection) {
  const auto self = shared_from_this();
  Connection& c = *connection;
  const auto at_end = std::shared_ptr<void>(nullptr, [this, &c](void*) {
    forget(c);
    --connections;
    say_when_idle();
  });
  try {
    c.buffer.reserve(kRead);  // the default grows from 512 bytes: many reads for a large body
    while (!stopping || c.buffer.size() > 0 || c.has_arrived())
      if (!co_await serve_one(c)) break;
  } catch (const std::exception&) {
    // A peer that broke off, or memory that ran out for this connection: close it.
  }
}

// Serves one request; returns false to close the connection.
asio::awaitable<bool> HttpServer::State::serve_one(Connection& c) {
  Parser parser;
  parser.header_limit(static_cast<uint32_t>(limits.header_bytes));
  parser.body_limit(boost::none);  // until the head is admitted

  enter(c, Phase::kAwaitsRequest);
  c.stream.expires_after(limits.idle);
  auto [fault, read] = co_await http::async_read_header(c.stream, c.buffer, parser, kAwait);
  if (closed || c.evicted) co_return false;

  if (!fault) {
    if (auto refused = refusal(c, parser)) {
      refused->version(parser.get().version());
      if (parser.get().method() == http::verb::head) refused->body().clear();
      const After after = !parser.is_done()           ? After::kDiscardRest
                          : parser.get().keep_alive() ? After::kNextRequest
                                                      : After::kClose;
      co_return co_await answer(c, std::move(*refused), after);
    }
    if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      co_await asio::async_write(c.stream, asio::buffer(kContinue), kAwait);
    }
    enter(c, Phase::kAwaitsBody);
    parser.body_limit(limits.body_bytes);
    c.stream.expires_after(limits.request);
    std::tie(fault, read) = co_await http::async_read(c.stream, c.buffer, parser, kAwait);
  }

  if (c.evicted || is_gone(fault)) co_return false;
  if (fault) co_return co_await answer(c, error_of(fault), After::kDiscardRest);
  const After after = parser.get().keep_alive() ? After::kNextRequest : After::kClose;
  co_return co_await answer(c, co_await handle(c, parser.release()), after);
}

HttpResponse HttpServer::State::error_of(const error_code& fault) const {
  if (fault == http::error::body_limit)
    return error_response(
        413, "body: larger than the " + std::to_string(limits.body_bytes) + " bytes allowed");
  if (fault == http::error::header_limit)
    return error_response(
        431, "head: larger than the " + std::to_string(limits.header_bytes) + " bytes allowed");
  return error_response(400, "HTTP: " + fault.message());
}

// Returns why the request is refused by its head; otherwise takes memory for its body.
std::optional<HttpResponse> HttpServer::State::refusal(Connection& c, Parser& parser) {
  if (admission)
    if (auto refused = admission(parser.get().base())) return refused;
  const auto length = parser.content_length();
  if (length && *length > limits.body_bytes) return error_of(http::error::body_limit);
  // A body in chunks may become as large as any.
  const size_t body = length ? *length : parser.chunked() ? limits.body_bytes : 0;
  if (!take_memory(c, body))
    return error_response(503, "the memory for bodies is taken: try again later");
  return std::nullopt;
}

asio::awaitable<HttpResponse> HttpServer::State::handle(Connection& c, HttpRequest request) {
  const bool head = request.method() == http::verb::head;
  const unsigned version = request.version();
  HttpResponse response;
  enter(c, Phase::kInHandler);
  c.stream.expires_never();
  try {
    response = co_await handler(std::move(request));
  } catch (const std::exception& e) {
    response = error_response(500, std::string("internal: ") + e.what());
  }
  give_memory_back(c);
  response.version(version);
  if (head) {
    response.content_length(response.body().size());
    response.body().clear();
  }
  co_return response;
}

// Returns whether the connection may serve another request.
asio::awaitable<bool> HttpServer::State::answer(Connection& c, HttpResponse response, After after) {
  if (stopping && after == After::kNextRequest) after = After::kClose;
  response.keep_alive(after == After::kNextRequest);
  if (!response.has_content_length()) response.prepare_payload();
  enter(c, Phase::kAnswerUntaken);
  give_memory_back(c);
  take_memory(c, response.body().size());  // a finished answer is sent, memory or not
  c.stream.expires_after(limits.answer);
  http::serializer<false, http::string_body> serializer(response);
  const auto [fault, written] = co_await http::async_write(c.stream, serializer, kAwait);
  give_memory_back(c);
  if (!fault && after == After::kDiscardRest) co_await discard_rest(c);
  co_return !fault && !c.evicted && after == After::kNextRequest;
}

// Closing a TCP connection with unread bytes would take the answer from the client.
asio::awaitable<void> HttpServer::State::discard_rest(Connection& c) {
  error_code ignored;
  c.stream.socket().shutdown(Socket::shutdown_send, ignored);
  c.stream.expires_after(kLinger);
  c.buffer.clear();
  for (error_code fault; !fault;)
    std::tie(fault, std::ignore) =
        co_await c.stream.async_read_some(c.buffer.prepare(kRead), kAwait);
}

// ---- the end ---------------------------------------------------------------------------------

void HttpServer::State::say_when_idle() {
  if (stopping && connections == 0 && on_idle) asio::post(io, std::exchange(on_idle, nullptr));
}

// A unix socket that is shut down refuses new connections and hands out waiting ones; a TCP socket
// drops them.
void HttpServer::State::refuse_connections() {
  int domain = 0;
  socklen_t size = sizeof(domain);
  ::getsockopt(listening.native_handle(), SOL_SOCKET, SO_DOMAIN, &domain, &size);
  if (domain == AF_UNIX) ::shutdown(listening.native_handle(), SHUT_RD);
  accept_waiting(INT_MAX);
  error_code ignored;
  listening.close(ignored);
  room.cancel();
}

void HttpServer::State::close_idle() {
  for (Connection* c : open)
    if (c->phase == Phase::kAwaitsRequest && (closed || !c->has_arrived())) c->stream.cancel();
}

HttpServer::HttpServer(asio::io_context& io, Fd listening, HttpHandler handler, HttpLimits limits,
                       HttpAdmission admission) {
  const int flags = ::fcntl(listening.get(), F_GETFL);
  ::fcntl(listening.get(), F_SETFL, flags | O_NONBLOCK);
  state_ = std::make_shared<State>(io, std::move(listening), std::move(handler), limits,
                                   std::move(admission));
  asio::co_spawn(
      io, [s = state_] { return s->accept_all(); }, asio::detached);
}

HttpServer::~HttpServer() {
  state_->stopping = true;
  error_code ignored;
  state_->listening.close(ignored);
  state_->room.cancel();
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

}  // namespace sluice::wire
