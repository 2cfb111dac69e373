#include "gateway/session.h"

#include <poll.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <nlohmann/json.hpp>

#include "gateway/head.h"

namespace sluice::gateway {
namespace {

using boost::system::error_code;
using RequestParser = http::request_parser<http::buffer_body>;
using ResponseParser = http::response_parser<http::buffer_body>;
constexpr size_t kPiece = 128 * 1024;  // of a streamed body: stays in the second-level cache
constexpr Nanos kDesertedCheck = Millis(100);

Socket& bottom(Socket& s) {
  return s;
}
Socket& bottom(TlsSocket& s) {
  return s.next_layer();
}

std::string_view sv(beast::string_view s) {
  return {s.data(), s.size()};
}

std::string error_body(std::string_view message) {
  return nlohmann::json{{"error", std::string(message)}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Random enough to be unique, not to be a secret.
std::string hex_id(size_t digits) {
  static thread_local uint64_t state =
      static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
      (static_cast<uint64_t>(::getpid()) << 32);
  std::string out;
  while (out.size() < digits) {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    for (int i = 0; i < 16 && out.size() < digits; ++i, z >>= 4) out += "0123456789abcdef"[z & 15];
  }
  return out;
}

template <class Stream>
class Session final : public Waiter,
                      public Watched,
                      public std::enable_shared_from_this<Session<Stream>> {
 public:
  Session(Loop& loop, Stream stream, const SessionLimits& limits, const LocalAnswers& local)
      : loop_(loop), stream_(std::move(stream)), limits_(limits), local_(local), bell_(loop.io) {
    buffer_.reserve(64 * 1024);
  }

  Awaitable<void> run() {
    while (!loop_.stopping() && co_await next_request()) {
    }
    error_code ignored;
    bottom(stream_).close(ignored);
  }

  // Under the dispatcher's mutex, perhaps on another loop's thread.
  void on_granted() override {
    has_instance_.store(true, std::memory_order_release);
    asio::post(loop_.io, [self = this->shared_from_this()] { self->bell_.cancel(); });
  }

  void sweep(Time now) override {
    if (now >= deadline_) expired_ = true;
    if (watching_ && now >= next_check_) {
      next_check_ = now + kDesertedCheck;
      pollfd p{bottom(stream_).native_handle(), POLLRDHUP, 0};
      if (::poll(&p, 1, 0) > 0) gone_ = true;
    }
    if (!expired_ && !gone_ && !(idle_ && loop_.stopping())) return;
    error_code ignored;
    bottom(stream_).cancel(ignored);
    if (upstream_) upstream_->socket.cancel(ignored);
    bell_.cancel();
  }

 private:
  // ---- one request, in steps -------------------------------------------------------------------

  Awaitable<bool> next_request() {
    // 1. The head.
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(limits_.header_bytes));
    parser_->body_limit(boost::none);
    expired_ = gone_ = watching_ = false;
    if (buffer_.size() == 0) {
      idle_ = true;
      deadline_ = loop_.now() + limits_.idle;
      const auto [fault, n] = co_await stream_.async_read_some(buffer_.prepare(16 * 1024), kAwait);
      idle_ = false;
      if (fault) co_return false;
      buffer_.commit(n);
    }
    arrived_ = loop_.now();
    deadline_ = arrived_ + limits_.head;
    const auto [fault, n] = co_await http::async_read_header(stream_, buffer_, *parser_, kAwait);
    keep_ = false;
    if (fault == http::error::end_of_stream || (fault && expired_ && n == 0)) co_return false;
    if (fault == http::error::header_limit)
      co_return co_await refuse(
          431, "head: larger than the " + std::to_string(limits_.header_bytes) + " bytes allowed");
    if (fault && expired_) co_return co_await refuse(408, "head: took too long");
    if (fault) co_return co_await refuse(400, "HTTP: " + fault.message());
    const RequestHead& head = parser_->get();
    if (const auto framed = check_framing(head); !framed.ok())
      co_return co_await refuse(400, framed.error().message);
    keep_ = parser_->keep_alive() && !loop_.stopping();
    const auto id = head.find("X-Request-Id");
    own_id_ = id == head.end() ? hex_id(32) : "";
    request_id_ = id == head.end() ? own_id_ : std::string(sv(id->value()));
    co_return co_await route(head);
  }

  // 2. Ours, or a function's.
  Awaitable<bool> route(const RequestHead& head) {
    const std::string_view target = sv(head.target());
    if (auto own = local_.answer(sv(head.method_string()), target, arrived_)) {
      co_await drop_body();
      // No conditional temporary inside a co_await: GCC 12 copies its bytes into the frame.
      std::string extra;
      if (!own->allow.empty()) extra = "Allow: " + own->allow + "\r\n";
      co_return co_await send(own_response(own->status, own->body, request_id_, keep_, extra,
                                           own->content_type, head.method() == http::verb::head));
    }
    const auto path = model_path(target);
    if (!path) co_return co_await refuse_and_drop(404, "no such path");

    // 3. A place in its queue.
    has_instance_ = false;
    const auto entry =
        loop_.dispatcher.enter(*this, path->served, path->revision, bearer(head), arrived_);
    using R = Dispatcher::Refusal;
    switch (entry.refusal) {
      case R::kNone:
        break;
      case R::kUnknown:
      case R::kUnknownRevision:
        co_return co_await refuse_and_drop(404, entry.why);
      case R::kUnavailable:
        co_return co_await refuse_and_drop(503, entry.why);
      case R::kDenied:
        co_return co_await refuse_and_drop(401, entry.why, "WWW-Authenticate: Bearer\r\n");
      case R::kFull:
        co_return co_await refuse_and_drop(
            429, entry.why,
            "Retry-After: " +
                std::to_string((entry.retry_after.count() + 999'999'999) / 1'000'000'000) + "\r\n");
    }
    timeout_at_ = arrived_ + entry.timeout;
    const bool keep = co_await serve_request(head);
    co_return keep&& keep_;
  }

  // From here a place is held; every way out passes finish().
  Awaitable<bool> serve_request(const RequestHead& head) {
    const bool expects = beast::iequals(head[http::field::expect], "100-continue");
    const auto length = parser_->content_length();
    const bool small = length ? *length <= limits_.kept_body_bytes : true;
    body_.clear();

    // 4. A small body is read while we wait: a slow sender must not hold an instance.
    if (small && !parser_->is_done()) {
      if (expects && !co_await send_continue()) co_return end(Outcome::kGone);
      if (const int status = co_await read_small_body(); status != 0) {
        if (status == 1) co_return end(Outcome::kGone);
        end(Outcome::kInvalid);
        keep_ = false;
        co_return co_await refuse(status, status == 408 ? "body: took too long" : "body: broken");
      }
    }
    const bool streamed = !parser_->is_done();

    // 5. and 6. An instance, and the exchange with it; once more if it dies before it answers.
    bool retried = false;
    watching_ = true;
    loop_.dispatcher.ready(*this, loop_.now());
    for (;;) {
      deadline_ = timeout_at_;
      while (!has_instance_.load(std::memory_order_acquire) && !expired_ && !gone_) {
        bell_.expires_at(Timer::time_point::max());
        co_await bell_.async_wait(kAwait);
      }
      if (gone_) co_return end(Outcome::kGone);
      if (expired_) co_return co_await time_out();
      if (streamed && expects && !co_await send_continue()) co_return end(Outcome::kGone);

      const Step step = co_await exchange(head, streamed);
      if (step == Step::kAnswered) co_return true;
      if (step == Step::kBrokenAnswer || step == Step::kClientLost) co_return false;
      if (gone_) co_return end(Outcome::kGone);
      if (expired_) co_return co_await time_out();
      if (step == Step::kDied && (streamed || retried)) {
        end(Outcome::kBroken);
        keep_ = keep_ && !streamed;
        co_return co_await refuse(
            502, streamed ? "the instance died; a body this large is not kept to be sent again"
                          : "the instance died, and so did the next one");
      }
      if (step == Step::kDied) retried = true;
      has_instance_ = false;
      loop_.dispatcher.again(*this, step == Step::kRefused, loop_.now());
    }
  }

  enum class Step {
    kAnswered,      // all is done, finish() too
    kRefused,       // no connection: nothing was sent
    kDied,          // broke before the first byte of an answer
    kBrokenAnswer,  // broke within the answer: the client's connection must close
    kClientLost,
  };

  // One request to the instance that was granted, and its answer to the client.
  Awaitable<Step> exchange(const RequestHead& head, bool streamed) {
    const std::string socket = granted()->socket;
    Forwarded with{.request_id = own_id_, .more = more()};
    if (head.find("traceparent") == head.end())
      with.traceparent = "00-" + hex_id(32) + "-" + hex_id(16) + "-01";
    const auto length = parser_->content_length();
    with.chunked = streamed && !length;
    if (streamed && length) with.content_length = *length;
    if (!streamed && (!body_.empty() || length || parser_->chunked()))
      with.content_length = body_.size();
    const std::string head_text = request_head(head, with);

    for (bool fresh = false;; fresh = true) {
      upstream_ = fresh ? nullptr : loop_.kept(socket);
      const bool reused = upstream_ != nullptr;
      if (!reused) {
        auto opened = co_await loop_.open(socket);
        if (!opened.ok()) co_return Step::kRefused;
        upstream_ = std::move(*opened);
      }
      answer_.emplace();
      answer_->header_limit(static_cast<uint32_t>(limits_.header_bytes));
      answer_->body_limit(boost::none);
      if (head.method() == http::verb::head) answer_->skip(true);
      bool early = false;
      error_code fault = co_await send_request(head_text, streamed, early);
      // Even if sending broke off: an instance that refuses a body answers before it closes.
      bool began = false;
      if (!client_lost_) fault = co_await read_answer_head(began);
      if (client_lost_ || gone_) {
        upstream_.reset();
        end(Outcome::kGone);
        co_return Step::kClientLost;
      }
      if (!fault) co_return co_await relay_answer(head, early);
      upstream_.reset();
      if (began) {
        end(Outcome::kBroken);
        keep_ = false;
        co_await refuse(502, "the instance's answer is broken: " + fault.message());
        co_return Step::kBrokenAnswer;
      }
      // A kept connection may have been closed while our request was on its way.
      if (reused && !streamed && !expired_) continue;
      co_return Step::kDied;
    }
  }

  Awaitable<error_code> send_request(const std::string& head_text, bool streamed, bool& early) {
    if (!streamed) {
      const std::array<asio::const_buffer, 2> parts{asio::buffer(head_text), asio::buffer(body_)};
      const auto [fault, n] = co_await asio::async_write(upstream_->socket, parts, kAwait);
      co_return fault;
    }
    auto [fault, n] =
        co_await asio::async_write(upstream_->socket, asio::buffer(head_text), kAwait);
    const bool chunked = !parser_->content_length();
    if (!fault && chunked && !body_.empty())
      fault = co_await write_chunk(upstream_->socket, body_.data(), body_.size());
    piece_.resize(kPiece);
    while (!fault && !parser_->is_done()) {
      error_code ignored;
      if (upstream_->socket.available(ignored) > 0) {  // it answers already: send no more
        early = true;
        break;
      }
      deadline_ = std::min(timeout_at_, loop_.now() + limits_.stall);
      watching_ = false;  // reading tells us anyway
      const auto [broken, size] = co_await read_piece(stream_, buffer_, *parser_);
      if (broken) {
        client_lost_ = true;
        co_return broken;
      }
      if (size == 0) continue;
      if (chunked) {
        fault = co_await write_chunk(upstream_->socket, piece_.data(), size);
      } else {
        std::tie(fault, n) = co_await asio::async_write(upstream_->socket,
                                                        asio::buffer(piece_.data(), size), kAwait);
      }
    }
    if (fault) early = true;
    if (!fault && chunked && !early)
      std::tie(fault, n) =
          co_await asio::async_write(upstream_->socket, asio::buffer("0\r\n\r\n", 5), kAwait);
    watching_ = !early;
    deadline_ = timeout_at_;
    co_return fault;
  }

  Awaitable<error_code> read_answer_head(bool& began) {
    for (;;) {
      const auto [fault, n] =
          co_await http::async_read_header(upstream_->socket, upstream_->buffer, *answer_, kAwait);
      if (fault) {
        began = answer_->got_some();
        co_return fault;
      }
      if (answer_->get().result_int() / 100 != 1) co_return error_code{};
      answer_.emplace();  // 1xx: the real one follows
      answer_->body_limit(boost::none);
    }
  }

  // 7. The answer, as it comes.
  Awaitable<Step> relay_answer(const RequestHead& head, bool early) {
    const ResponseHead& answer = answer_->get();
    const unsigned status = answer.result_int();
    uint64_t inferences = 0;
    if (const auto field = answer.find("Sluice-Inferences"); field != answer.end())
      inferences = std::strtoull(std::string(sv(field->value())).c_str(), nullptr, 10);
    if (early) keep_ = false;  // what is left of the request's body stands in our way
    const bool body = has_body(head.method(), status);
    const auto length = answer_->content_length();
    const bool rechunk = body && !length && head.version() >= 11;
    if (body && !length && !rechunk) keep_ = false;
    std::optional<uint64_t> said;
    if (length) said = *length;
    if (!length && body && answer_->is_done()) said = 0;
    std::string out = response_head(answer, own_id_, status == 204 ? std::nullopt : said,
                                    rechunk && !said, keep_);
    piece_.resize(kPiece);
    bool first = true;
    error_code fault;
    while (body && !answer_->is_done()) {
      deadline_ = std::max(timeout_at_, loop_.now());
      auto [broken, size] = co_await read_piece(upstream_->socket, upstream_->buffer, *answer_);
      if (broken) {
        if (first) {  // nothing went out yet: a clean error is possible
          upstream_.reset();
          end(Outcome::kBroken);
          keep_ = false;
          co_await refuse(502, "the instance died within its answer");
          co_return Step::kBrokenAnswer;
        }
        upstream_.reset();
        end(expired_ ? Outcome::kTimedOut : Outcome::kBroken);
        co_return Step::kBrokenAnswer;
      }
      if (size == 0) continue;
      if (rechunk) {
        char line[20];
        const int n = std::snprintf(line, sizeof(line), "%zx\r\n", size);
        const std::array<asio::const_buffer, 4> parts{
            asio::buffer(first ? out : std::string_view()),
            asio::buffer(line, static_cast<size_t>(n)), asio::buffer(piece_.data(), size),
            asio::buffer("\r\n", 2)};
        std::tie(fault, size) = co_await asio::async_write(stream_, parts, kAwait);
      } else {
        const std::array<asio::const_buffer, 2> parts{
            asio::buffer(first ? std::string_view(out) : std::string_view()),
            asio::buffer(piece_.data(), size)};
        std::tie(fault, size) = co_await asio::async_write(stream_, parts, kAwait);
      }
      first = false;
      if (fault) break;
    }
    if (!fault && (first || rechunk)) {
      if (first && rechunk) out += said ? "" : "0\r\n\r\n";
      const std::string_view tail = first ? std::string_view(out) : std::string_view("0\r\n\r\n");
      const auto [broken, n] = co_await asio::async_write(stream_, asio::buffer(tail), kAwait);
      fault = broken;
    }
    if (fault) {
      upstream_.reset();
      end(gone_ || !expired_ ? Outcome::kGone : Outcome::kTimedOut);
      co_return Step::kClientLost;
    }
    const std::string socket = granted()->socket;
    end(status < 400   ? Outcome::kOk
        : status < 500 ? Outcome::kInvalid
                       : Outcome::kFailed,
        inferences);
    if (answer_->keep_alive() && answer_->is_done() && !early)
      loop_.keep(socket, std::move(upstream_));
    upstream_.reset();
    co_return Step::kAnswered;
  }

  // ---- pieces ----------------------------------------------------------------------------------

  template <class From, class Parser>
  Awaitable<std::pair<error_code, size_t>> read_piece(From& from, beast::flat_buffer& buffer,
                                                      Parser& parser) {
    auto& body = parser.get().body();
    body.data = piece_.data();
    body.size = piece_.size();
    body.more = true;
    auto [fault, n] = co_await http::async_read_some(from, buffer, parser, kAwait);
    if (fault == http::error::need_buffer) fault = {};
    co_return std::pair(fault, piece_.size() - body.size);
  }

  Awaitable<error_code> write_chunk(Socket& to, const char* data, size_t size) {
    char line[20];
    const int n = std::snprintf(line, sizeof(line), "%zx\r\n", size);
    const std::array<asio::const_buffer, 3> parts{asio::buffer(line, static_cast<size_t>(n)),
                                                  asio::buffer(data, size),
                                                  asio::buffer("\r\n", 2)};
    const auto [fault, written] = co_await asio::async_write(to, parts, kAwait);
    co_return fault;
  }

  // 0: all of it, or as much as is kept. 1: the client left. Else a status.
  Awaitable<int> read_small_body() {
    piece_.resize(kPiece);
    while (!parser_->is_done() && body_.size() <= limits_.kept_body_bytes) {
      deadline_ = std::min(timeout_at_, loop_.now() + limits_.stall);
      const auto [fault, size] = co_await read_piece(stream_, buffer_, *parser_);
      if (fault && expired_) co_return 408;
      if (fault == asio::error::eof || fault == http::error::partial_message ||
          fault == asio::error::connection_reset)
        co_return 1;
      if (fault) co_return 400;
      body_.append(piece_.data(), size);
    }
    co_return 0;
  }

  // What is left of a refused request's body, if it is little; else the connection must close.
  Awaitable<void> drop_body() {
    constexpr size_t kDropped = 256 * 1024;
    if (parser_->is_done()) co_return;
    const auto length = parser_->content_length();
    if ((length && *length > kDropped) ||
        parser_->get().find(http::field::expect) != parser_->get().end()) {
      keep_ = false;
      co_return;
    }
    piece_.resize(kPiece);
    size_t dropped = 0;
    deadline_ = loop_.now() + limits_.stall;
    while (!parser_->is_done() && dropped <= kDropped) {
      const auto [fault, size] = co_await read_piece(stream_, buffer_, *parser_);
      dropped += size;
      if (fault) break;
    }
    if (!parser_->is_done()) keep_ = false;
  }

  Awaitable<bool> send(std::string text) {
    deadline_ = loop_.now() + limits_.stall;
    expired_ = false;
    const auto [fault, n] = co_await asio::async_write(stream_, asio::buffer(text), kAwait);
    co_return !fault && keep_;
  }

  Awaitable<bool> send_continue() {
    const auto [fault, n] = co_await asio::async_write(
        stream_, asio::buffer("HTTP/1.1 100 Continue\r\n\r\n", 25), kAwait);
    co_return !fault;
  }

  Awaitable<bool> refuse(int status, std::string_view why, std::string_view extra = "") {
    return send(own_response(status, error_body(why), request_id_, keep_, extra, "application/json",
                             parser_->get().method() == http::verb::head));
  }

  Awaitable<bool> refuse_and_drop(int status, std::string why, std::string extra = "") {
    co_await drop_body();
    co_return co_await refuse(status, why, extra);
  }

  Awaitable<bool> time_out() {
    end(Outcome::kTimedOut);
    keep_ = keep_ && parser_->is_done();
    return refuse(504, "timed out");
  }

  bool end(Outcome outcome, uint64_t inferences = 0) {
    watching_ = false;
    loop_.dispatcher.finish(*this, outcome, inferences, loop_.now());
    return false;
  }

  Loop& loop_;
  Stream stream_;
  const SessionLimits& limits_;
  const LocalAnswers& local_;
  Timer bell_;  // waits for an instance; cancelled when anything happens
  beast::flat_buffer buffer_;
  std::optional<RequestParser> parser_;
  std::optional<ResponseParser> answer_;
  std::unique_ptr<Connection> upstream_;
  std::string body_;  // kept until the answer begins
  std::vector<char> piece_;
  std::string request_id_, own_id_;  // own_id_: empty when the client sent one
  Time arrived_{}, timeout_at_{}, deadline_ = Time::max(), next_check_{};
  std::atomic<bool> has_instance_ = false;
  bool expired_ = false, gone_ = false, idle_ = false, watching_ = false;
  bool keep_ = false, client_lost_ = false;
};

}  // namespace

template <class Stream>
Awaitable<void> serve(Loop& loop, Stream stream, const SessionLimits& limits,
                      const LocalAnswers& local) {
  const auto session = std::make_shared<Session<Stream>>(loop, std::move(stream), limits, local);
  loop.sessions.insert(session.get());
  try {
    co_await session->run();
  } catch (const std::exception&) {
    // Memory ran out for this connection, or the library gave up on it: it ends, the others go on.
  }
  loop.dispatcher.finish(*session, Outcome::kFailed, 0, loop.now());  // no-op when nothing is held
  loop.sessions.erase(session.get());
}

template Awaitable<void> serve(Loop&, Socket, const SessionLimits&, const LocalAnswers&);
template Awaitable<void> serve(Loop&, TlsSocket, const SessionLimits&, const LocalAnswers&);

}  // namespace sluice::gateway
