#include "gateway/exchange.h"

#include <array>
#include <boost/asio/post.hpp>

namespace sluice::gateway {

Awaitable<Exchange::Step> Exchange::ask(Waiter& request, Client& client, const Forwarded& with,
                                        Time answer_by) {
  socket_ = request.granted()->socket;
  out_.clear();
  put_request_head(out_, client.head(), with);
  const bool streamed = !client.whole();
  once_ = with.once;
  for (bool again = false;; again = true) {
    // A request that cannot be sent twice goes on a new connection: a kept one may be closing.
    connection_ = again || streamed || with.once ? nullptr : loop_.kept(socket_);
    const bool reused = connection_ != nullptr;
    if (!reused) {
      connection_ = loop_.unconnected();
      if (co_await loop_.connect(*connection_, socket_))
        co_return again ? Step::kDied : Step::kRefused;
    }
    // After everything that can be read now, so that requests go out in bursts, which find the
    // other end awake: one of 1 KiB costs a seventh less (bench_gateway).
    co_await asio::post(loop_.io.get_executor(), kAwait);
    error_code fault = co_await send(request, client, answer_by);
    if (client.body_fault() != Client::Body::kWhole) co_return Step::kNotSent;
    if (fault && watch_.gone) co_return Step::kDied;  // a part of a request is none to work on
    // Even if sending broke off: an instance that refuses a body answers before it closes.
    answer_.emplace(head_, limits_.header_bytes);
    fault = co_await read_answer_head(client.head().verb == http::verb::head);
    if (!fault) co_return Step::kAnswers;
    if (watch_.gone) co_return Step::kLeft;
    abandon();
    if (answer_->begun()) co_return Step::kGarbled;
    // The machine of a silent one would keep the next connection waiting, too.
    if (!reused || watch_.expired || fault == asio::error::timed_out) co_return Step::kDied;
  }
}

Awaitable<error_code> Exchange::send(Waiter& request, Client& client, Time answer_by) {
  early_ = false;
  const bool streamed = !client.whole();
  const bool chunked = streamed && client.framing().chunked;
  const bool in_chunk = chunked && !client.kept().empty();
  const ChunkLine line(client.kept().size());
  const std::array<std::string_view, 4> parts{out_, in_chunk ? line.text() : "", client.kept(),
                                              in_chunk ? "\r\n" : ""};
  error_code fault = co_await connection_->stream->send(parts);
  if (!fault && streamed) {
    watch_.for_client = false;  // reading detects it anyway
    fault = co_await stream_body(client, answer_by);
    loop_.dispatcher.sent(request, loop_.now());
    watch_.for_client = !early_;
    watch_.deadline = answer_by;
  }
  early_ = early_ || fault;
  co_return fault;
}

Awaitable<error_code> Exchange::stream_body(Client& client, Time answer_by) {
  const bool chunked = client.framing().chunked;
  while (!client.whole()) {
    error_code fault;
    early_ = connection_->stream->socket().available(fault) > 0;  // it answers: send no more
    if (early_) co_return error_code{};
    const Piece piece = co_await client.next_piece();
    if (piece.fault) co_return piece.fault;
    if (piece.data.empty()) break;
    watch_.deadline = answer_by;
    const ChunkLine line(piece.data.size());
    const std::array<std::string_view, 3> parts{chunked ? line.text() : "", piece.data,
                                                chunked ? "\r\n" : ""};
    fault = co_await connection_->stream->send_scratch(parts);
    if (fault) co_return fault;
  }
  if (!chunked) co_return error_code{};
  const std::array<std::string_view, 1> last{kLastChunk};
  co_return co_await connection_->stream->send(last);
}

Awaitable<error_code> Exchange::read_answer_head(bool no_body) {
  for (;;) {
    if (no_body) answer_->no_body();
    const error_code fault = co_await read_head(*connection_, *answer_);
    if (fault) co_return fault;
    if (head_.status / 100 != 1) co_return error_code{};
    answer_.emplace(head_, limits_.header_bytes);  // 1xx: the final answer follows
  }
}

Awaitable<Piece> Exchange::next_piece() {
  return read_piece(*connection_, *answer_, loop_.scratch());
}

Awaitable<void> Exchange::await_end(bool no_body) {
  error_code fault;
  connection_->stream->socket().shutdown(Socket::shutdown_send, fault);
  fault = co_await read_answer_head(no_body);
  while (!fault && !answer_->done()) fault = (co_await next_piece()).fault;
  abandon();
}

void Exchange::release() {
  if (connection_ && answer_->done() && answer_->keep_alive() && !early_ && !once_)
    loop_.keep(socket_, std::move(connection_));
  abandon();
}

void Exchange::cancel() {
  error_code ignored;
  if (connection_) connection_->stream->socket().cancel(ignored);
}

}  // namespace sluice::gateway
