#include "gateway/connection.h"

#include <charconv>

namespace sluice::gateway {

Awaitable<error_code> Connection::fill() {
  const auto room = buffer.prepare(kRead);
  const auto [fault, n] = co_await stream->receive({static_cast<char*>(room.data()), room.size()});
  buffer.commit(n);
  co_return fault;
}

template <bool kRequest>
Awaitable<error_code> read_head(Connection& from, Message<kRequest>& message) {
  for (;;) {
    error_code fault;
    if (from.buffer.size() > 0) from.buffer.consume(message.take_head(from.unused(), fault));
    if (fault || message.head_done()) co_return fault;
    fault = co_await from.fill();
    if (fault) co_return fault;
  }
}

template <bool kRequest>
Awaitable<Piece> read_piece(Connection& from, Message<kRequest>& message, std::span<char> scratch) {
  error_code fault;
  while (!message.done()) {
    if (from.buffer.size() > 0) {
      const auto taken = message.take_body(from.unused(), fault);
      from.buffer.consume(taken.used);  // the bytes stay where they are until the next fill()
      if (fault || !taken.data.empty()) co_return Piece{fault, taken.data};
      if (message.done()) break;
    }
    size_t got = 0;
    if (const uint64_t plain = message.unframed(); plain > 0) {
      const auto room = scratch.first(std::min<uint64_t>(plain, scratch.size()));
      std::tie(fault, got) = co_await from.stream->receive_scratch(room);
    } else {
      fault = co_await from.fill();
    }
    if (fault == asio::error::eof) message.take_end(fault);
    if (fault) co_return Piece{fault, {}};
    if (got > 0) co_return Piece{{}, message.take_body({scratch.data(), got}, fault).data};
  }
  co_return Piece{};
}

template Awaitable<error_code> read_head(Connection&, Message<true>&);
template Awaitable<error_code> read_head(Connection&, Message<false>&);
template Awaitable<Piece> read_piece(Connection&, Message<true>&, std::span<char>);
template Awaitable<Piece> read_piece(Connection&, Message<false>&, std::span<char>);

ChunkLine::ChunkLine(size_t size) {
  char* end = std::to_chars(text_, text_ + 16, size, 16).ptr;
  *end++ = '\r';
  *end++ = '\n';
  size_ = static_cast<size_t>(end - text_);
}

}  // namespace sluice::gateway
