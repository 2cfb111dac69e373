#include "gateway/client.h"

#include <algorithm>
#include <array>
#include <boost/beast/core/string.hpp>
#include <nlohmann/json.hpp>

#include "gateway/http2.h"

namespace sluice::gateway {
namespace {

constexpr size_t kMostDropped = 256 * 1024;
constexpr Nanos kLinger = Seconds(5);
constexpr size_t kMostLingered = 1 << 30;  // the largest allowed body
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::string_view kNoHttp2 = "HTTP/2, and so gRPC, is not served: use HTTP/1.1";

std::string error_body(std::string_view message) {
  return nlohmann::json{{"error", std::string(message)}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

Client::Client(Loop& loop, std::unique_ptr<Stream> stream, Watch& watch,
               const SessionLimits& limits)
    : loop_(loop), connection_(std::move(stream)), watch_(watch), limits_(limits) {}

Client::~Client() {
  loop_.bodies.give(std::move(room_));
}

// ---- the request -------------------------------------------------------------------------------

Awaitable<std::optional<Client::Unread>> Client::read_request() {
  loop_.bodies.give(std::move(room_));
  kept_ = {};
  own_id_.clear();
  keep_ = answer_begun_ = streamed_ = false;
  streamed_bytes_ = 0;
  body_fault_ = Body::kWhole;
  body_by_ = Time::max();
  patience_ = limits_.body_patience;
  must_be_fast_ = false;
  request_.emplace(head_, limits_.header_bytes);
  if (nothing_yet()) {
    watch_.idle = true;
    watch_.deadline = loop_.now() + limits_.idle;
    loop_.put(watch_, Watch::List::kIdle);
    error_code fault;
    while (!fault && nothing_yet()) fault = co_await connection_.fill();
    watch_.idle = false;
    if (fault) co_return Unread{};
  }
  watch_.deadline = loop_.now() + limits_.head;
  if (connection_.unused().starts_with(kHttp2Preface.substr(0, 16))) {
    co_await refuse_http2();
    co_return Unread{};
  }
  loop_.put(watch_, Watch::List::kSlow);
  const error_code fault = co_await read_head(connection_, *request_);
  loop_.put(watch_, Watch::List::kBusy);
  if (fault == asio::error::eof || watch_.gone) co_return Unread{};
  if (fault == http::error::header_limit)
    co_return Unread{
        431, "head: larger than the " + std::to_string(limits_.header_bytes) + " bytes allowed"};
  if (fault && watch_.expired) co_return Unread{408, "head: took too long"};
  if (fault) co_return Unread{400, describe_fault(fault, head_)};
  if (const auto framed = check_framing(head_); !framed.ok())
    co_return Unread{400, framed.error().message};
  keep_ = request_->keep_alive() && !loop_.stopping();
  if (!head_.find("X-Request-Id")) loop_.put_id(own_id_, 32);
  co_return std::nullopt;
}

// Empty lines before a request are skipped (RFC 9112 §2.2); half of one may still be all there is.
bool Client::nothing_yet() {
  while (connection_.unused().starts_with("\r\n")) connection_.buffer.consume(2);
  return connection_.unused().empty() || connection_.unused() == "\r";
}

// In HTTP/2, because clients that begin with it show no other answer. It goes to the first stream
// that the client opens.
Awaitable<void> Client::refuse_http2() {
  loop_.put(watch_, Watch::List::kSlow);
  const std::array<std::string_view, 1> settings{kHttp2Settings};
  error_code fault = co_await connection_.stream->send(settings);
  Http2Opening opening = opening_of(connection_.unused());
  while (!fault && !opening.stream && !opening.broken &&
         connection_.buffer.size() < limits_.header_bytes) {
    fault = co_await connection_.fill();
    opening = opening_of(connection_.unused());
  }
  watch_.deadline = loop_.now() + limits_.stall;
  watch_.expired = false;
  out_ = http2_refusal(opening.stream.value_or(0), kNoHttp2, error_body(kNoHttp2));
  const std::array<std::string_view, 1> parts{out_};
  co_await connection_.stream->send(parts);
  loop_.put(watch_, Watch::List::kBusy);
}

std::string_view Client::request_id() const {
  return own_id_.empty() ? head_.find("X-Request-Id").value_or("") : std::string_view(own_id_);
}

bool Client::wants_continue() const {
  return !request_->done() &&
         boost::beast::iequals(head_.find(http::field::expect).value_or(""), "100-continue");
}

bool Client::longer_than(size_t bytes) const {
  return request_->length().value_or(0) > bytes;
}

uint64_t Client::body_bytes() const {
  return request_->length().value_or(kept_.size());
}

Awaitable<bool> Client::send_continue() {
  static constexpr std::array<std::string_view, 1> kParts{kContinue};
  const error_code fault = co_await connection_.stream->send(kParts);
  co_return !fault;
}

// 100 and no other: some clients take another interim status for their answer.
bool Client::probe() {
  if (head_.version < 11 || answer_begun_) return true;
  return connection_.stream->send_at_once(kContinue);
}

// A small body is read behind its head and stays there.
bool Client::keep_what_is_here() {
  if (request_->done()) return true;
  const auto length = request_->length();
  if (!length || connection_.buffer.size() < *length) return false;
  error_code fault;
  const BodyPiece taken = request_->take_body(connection_.unused(), fault);
  connection_.buffer.consume(taken.used);
  kept_ = taken.data;
  return true;
}

Awaitable<Client::Body> Client::keep_body(Time no_later) {
  body_by_ = no_later;
  loop_.put(watch_, Watch::List::kSlow);
  const Body body = co_await read_body();
  loop_.put(watch_, Watch::List::kBusy);
  co_return kept_.size() > limits_.body_bytes ? Body::kOver : body;
}

// A body too large to be kept must arrive fast before it gets an instance: its beginning is kept.
Awaitable<Client::Body> Client::read_body() {
  const auto length = request_->length();
  if (length && *length <= Connection::kRead) co_return co_await keep_in_buffer();
  if (length && *length > BodyRooms::kSize) hurry();
  room_ = loop_.bodies.take();
  if (!room_) {
    hurry();
    co_return Body::kTooLarge;
  }
  const Body body = co_await keep_in_room();
  if (body == Body::kTooLarge) hurry();
  co_return body;
}

// From here the body has to arrive at the rate of a streamed one.
void Client::hurry() {
  if (must_be_fast_) return;
  must_be_fast_ = true;
  patience_ = limits_.stream_patience;
}

Awaitable<Client::Body> Client::keep_in_buffer() {
  while (!keep_what_is_here()) {
    begin_wait();
    const size_t had = connection_.buffer.size();
    if (const error_code fault = co_await connection_.fill()) co_return fault_of_body(fault);
    end_wait(connection_.buffer.size() - had);
  }
  co_return Body::kWhole;
}

Awaitable<Client::Body> Client::keep_in_room() {
  size_t size = 0;
  const auto put = [&](std::string_view piece) {
    size += piece.copy(room_.get() + size, piece.size());
    kept_ = {room_.get(), size};
  };
  while (!request_->done()) {
    error_code fault;
    if (connection_.buffer.size() == 0 && request_->unframed() > 0) {  // straight to its place
      begin_wait();
      const size_t most = std::min<uint64_t>(request_->unframed(), BodyRooms::kSize - size);
      if (most == 0) co_return Body::kTooLarge;
      const auto [broken, n] = co_await connection_.stream->receive({room_.get() + size, most});
      if (broken) co_return fault_of_body(broken);
      end_wait(n);
      request_->take_body({room_.get() + size, n}, fault);
      size += n;
      kept_ = {room_.get(), size};
      continue;
    }
    // A chunk may be larger than the rest of the buffer: never take more than fits.
    if (size == BodyRooms::kSize) co_return Body::kTooLarge;
    const std::string_view at_hand = connection_.unused().substr(0, BodyRooms::kSize - size);
    const auto taken = request_->take_body(at_hand, fault);
    connection_.buffer.consume(taken.used);
    if (fault) co_return Body::kBroken;
    put(taken.data);
    if (taken.used > 0 || request_->done()) continue;
    begin_wait();
    const size_t had = connection_.buffer.size();
    fault = co_await connection_.fill();
    if (fault) co_return fault_of_body(fault);
    end_wait(connection_.buffer.size() - had);
  }
  co_return Body::kWhole;
}

Client::Body Client::fault_of_body(error_code fault) const {
  if (watch_.expired) return Body::kLate;
  const bool left =
      watch_.gone || fault == asio::error::eof || fault == http::error::partial_message ||
      fault == asio::error::connection_reset || fault == asio::ssl::error::stream_truncated;
  return left ? Body::kLeft : Body::kBroken;
}

Awaitable<Piece> Client::next_piece() {
  streamed_ = true;
  begin_wait();
  Piece piece = co_await read_piece(connection_, *request_, loop_.scratch());
  if (piece.fault) body_fault_ = fault_of_body(piece.fault);
  end_wait(piece.data.size());
  streamed_bytes_ += piece.data.size();
  if (kept_.size() + streamed_bytes_ > limits_.body_bytes) {
    body_fault_ = Body::kOver;
    piece = {asio::error::message_size, {}};
  }
  co_return piece;
}

// Waiting for a body uses up patience, and arriving bytes restore some. A client that stays below
// the least rate for long is not served, however it spreads its bytes.
void Client::begin_wait() {
  waits_since_ = loop_.now();
  watch_.deadline = std::min(body_by_, waits_since_ + patience_);
}

void Client::end_wait(size_t bytes) {
  const Nanos waited = loop_.now() - waits_since_;
  const double rate = must_be_fast_ ? limits_.stream_rate : limits_.body_rate;
  const Nanos earned = from_seconds(static_cast<double>(bytes) / rate);
  patience_ = std::min(must_be_fast_ ? limits_.stream_patience : limits_.body_patience,
                       patience_ - waited + earned);
}

Framing Client::framing() const {
  if (whole()) {
    const bool any = request_->length() || request_->chunked();
    return {.length = any ? std::optional<uint64_t>(kept_.size()) : std::nullopt};
  }
  return {.chunked = request_->chunked(), .length = request_->length()};
}

void Client::leave() {
  loop_.bodies.give(std::move(room_));
  kept_ = {};
  keep_ = false;
  error_code ignored;
  socket().close(ignored);
}

Awaitable<void> Client::drop_body() {
  if (request_->done()) co_return;
  if (request_->length().value_or(0) > kMostDropped || head_.find(http::field::expect))
    co_return close_after();
  size_t dropped = 0;
  loop_.put(watch_, Watch::List::kSlow);
  while (!request_->done() && dropped <= kMostDropped) {
    const Piece piece = co_await next_piece();
    if (piece.fault) break;
    dropped += piece.data.size();
  }
  loop_.put(watch_, Watch::List::kBusy);
  if (!request_->done()) close_after();
}

// ---- the answer --------------------------------------------------------------------------------

Persistence Client::persistence() const {
  if (!keep_ || loop_.stopping()) return Persistence::kClose;
  return head_.version < 11 ? Persistence::kKeepSaid : Persistence::kKeep;
}

Awaitable<bool> Client::send_own(const OwnAnswer& answer) {
  out_.clear();
  put_own_answer(out_, answer, request_id(), persistence(), head_.verb == http::verb::head);
  watch_.deadline = loop_.now() + limits_.stall;
  watch_.expired = false;
  const std::array<std::string_view, 1> parts{out_};
  loop_.put(watch_, Watch::List::kSlow);
  const error_code fault = co_await connection_.stream->send(parts);
  loop_.put(watch_, Watch::List::kBusy);
  co_return !fault && keep_;
}

Awaitable<bool> Client::send_error(int status, std::string_view why, std::string_view extra) {
  const std::string body = error_body(why);
  co_return co_await send_own({.status = status, .body = body, .extra = extra});
}

void Client::begin_answer(const Answer& answer) {
  has_body_ = gateway::has_body(head_.verb, answer.head().status);
  Framing framing{.length = answer.length()};
  if (has_body_ && !framing.length) {
    if (answer.done())
      framing.length = 0;
    else if (head_.version >= 11)
      framing.chunked = true;
    else
      close_after();  // HTTP/1.0 knows no other end
  }
  if (answer.head().status == 204) framing.length.reset();
  chunks_ = framing.chunked;
  out_.clear();
  put_response_head(out_, answer.head(), request_id(), framing, persistence());
}

Awaitable<error_code> Client::send_piece(std::string_view piece, bool last) {
  const bool chunk = chunks_ && !piece.empty();
  const ChunkLine line(piece.size());
  const std::array<std::string_view, 5> parts{out_, chunk ? line.text() : "", piece,
                                              chunk ? "\r\n" : "",
                                              chunks_ && last ? kLastChunk : ""};
  answer_begun_ = true;
  loop_.put(watch_, Watch::List::kSlow);
  const error_code fault = co_await connection_.stream->send_scratch(parts);
  loop_.put(watch_, Watch::List::kBusy);
  out_.clear();
  co_return fault;
}

// A close with unread bytes makes TCP reset the connection, and the answer is lost on its way.
Awaitable<void> Client::linger() {
  const bool unread = (request_->begun() && !request_->done()) || connection_.buffer.size() > 0;
  if (!unread || watch_.gone) co_return;
  error_code fault;
  socket().shutdown(Socket::shutdown_send, fault);
  watch_.expired = false;
  watch_.deadline = loop_.now() + kLinger;
  loop_.put(watch_, Watch::List::kSlow);
  for (size_t dropped = 0, n = 0; !fault && dropped <= kMostLingered; dropped += n)
    std::tie(fault, n) = co_await connection_.stream->receive_scratch(loop_.scratch());
}

}  // namespace sluice::gateway
