// A connection, to a client or to an instance: its stream, and what was read of it but not used
// yet. Both sides read messages from it in the same way.
//
// Belongs to its loop's thread.
#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <memory>
#include <span>

#include "gateway/io.h"
#include "gateway/message.h"

namespace sluice::gateway {

struct Connection {
  static constexpr size_t kRead = 16 * 1024;  // at a time, while it looks for a head

  explicit Connection(std::unique_ptr<Stream> s) : stream(std::move(s)) {}

  std::string_view unused() const {
    return {static_cast<const char*>(buffer.data().data()), buffer.size()};
  }
  // Reads some more behind the unused bytes.
  Awaitable<error_code> fill();

  std::unique_ptr<Stream> stream;
  boost::beast::flat_buffer buffer;
};

// Reads until the head is whole.
template <bool kRequest>
Awaitable<error_code> read_head(Connection& from, Message<kRequest>& message);

// The body's next piece, in scratch or in the connection's buffer: for use before the next wait.
// Empty without a fault: the end.
struct Piece {
  error_code fault;
  std::string_view data;
};
template <bool kRequest>
Awaitable<Piece> read_piece(Connection& from, Message<kRequest>& message, std::span<char> scratch);

// A chunk's first line.
class ChunkLine {
 public:
  explicit ChunkLine(size_t size);
  std::string_view text() const { return {text_, size_}; }

 private:
  char text_[18];
  size_t size_;
};
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace sluice::gateway
