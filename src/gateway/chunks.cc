#include "gateway/chunks.h"

#include <boost/beast/http/error.hpp>

namespace sluice::gateway {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

BodyPiece Chunks::take(std::string_view bytes, error_code& fault) {
  fault = {};
  for (size_t used = 0; used < bytes.size() && !done();) {
    if (state_ == State::kData) {
      const std::string_view data = bytes.substr(used, left_);
      left_ -= data.size();
      if (left_ == 0) state_ = State::kDataReturn;
      return {used + data.size(), data};
    }
    state_ = after(bytes[used], fault);
    ++used;
    if (fault || done() || used == bytes.size()) return {used, {}};
  }
  return {};
}

Chunks::State Chunks::after(char byte, error_code& fault) {
  const auto must_be = [&](char wanted, State next) {
    if (byte != wanted) fault = http::error::bad_chunk;
    return next;
  };
  switch (state_) {
    case State::kFirstDigit:
    case State::kSize:
      if (const int digit = hex_digit(byte); digit >= 0) {
        if (left_ >> 60 != 0) fault = http::error::bad_chunk;  // another digit would overflow
        left_ = left_ << 4 | static_cast<uint64_t>(digit);
        return State::kSize;
      }
      if (state_ == State::kFirstDigit) break;
      if (byte == ';') return State::kExtension;
      return must_be('\r', State::kSizeFeed);
    case State::kExtension:
      return pass_over(byte, State::kSizeFeed, fault);
    case State::kSizeFeed:
      return must_be('\n', left_ > 0 ? State::kData : State::kTrailerStart);
    case State::kDataReturn:
      return must_be('\r', State::kDataFeed);
    case State::kDataFeed:
      return must_be('\n', State::kFirstDigit);
    case State::kTrailerStart:
      if (byte == '\r') return State::kLastFeed;
      state_ = State::kTrailer;
      return pass_over(byte, State::kTrailerFeed, fault);
    case State::kTrailer:
      return pass_over(byte, State::kTrailerFeed, fault);
    case State::kTrailerFeed:
      return must_be('\n', State::kTrailerStart);
    case State::kLastFeed:
      return must_be('\n', State::kDone);
    case State::kData:
    case State::kDone:
      break;
  }
  fault = http::error::bad_chunk;
  return state_;
}

Chunks::State Chunks::pass_over(char byte, State end_of_line, error_code& fault) {
  if (byte == '\r') return end_of_line;
  if (byte == '\n' || byte == '\0') fault = http::error::bad_chunk_extension;
  if (++passed_over_ > kMostPassedOver) fault = http::error::header_limit;
  return state_;
}

}  // namespace sluice::gateway
