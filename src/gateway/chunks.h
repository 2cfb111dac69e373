// The chunked coding (RFC 9112 §7.1), parsed as it arrives: every byte once, however it was cut.
// Strict where two readers could differ: lines end in CRLF, sizes are hexadecimal digits alone.
// Extensions and trailers are skipped, and bounded. Not thread-safe.
#pragma once

#include <boost/system/error_code.hpp>
#include <cstdint>
#include <string_view>

namespace sluice::gateway {

// A piece of a body, within the bytes that were handed in; `used` of them are taken.
struct BodyPiece {
  size_t used = 0;
  std::string_view data;
};

class Chunks {
 public:
  // Takes bytes up to the next piece of data, the end, or the end of `bytes`.
  BodyPiece take(std::string_view bytes, boost::system::error_code& fault);
  bool done() const { return state_ == State::kDone; }

 private:
  static constexpr size_t kMostPassedOver = 16 * 1024;  // extensions and trailers of one message

  enum class State {
    kFirstDigit,    // of a size: required
    kSize,          // more digits, an extension, or the line's end
    kExtension,     // until the line's end
    kSizeFeed,      // the LF of a size's line
    kData,          // left_ bytes of data
    kDataReturn,    // the CR after data
    kDataFeed,      // its LF
    kTrailerStart,  // of a trailer, or of the final empty line
    kTrailer,       // until the line's end
    kTrailerFeed,   // its LF
    kLastFeed,      // the LF of the empty line
    kDone,
  };

  State after(char byte, boost::system::error_code& fault);
  State pass_over(char byte, State end_of_line, boost::system::error_code& fault);

  State state_ = State::kFirstDigit;
  uint64_t left_ = 0;  // of this chunk
  size_t passed_over_ = 0;
};

}  // namespace sluice::gateway
