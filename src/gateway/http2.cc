#include "gateway/http2.h"

#include <algorithm>

namespace sluice::gateway {
namespace {

constexpr size_t kFrameHead = 9;
constexpr uint32_t kLargestFrame = 16 * 1024;  // until a server's settings allow more
enum Type : uint8_t { kData = 0, kHeaders = 1, kGoAway = 7 };
constexpr uint8_t kEndStream = 1, kEndHeaders = 4;
constexpr uint32_t kHttp11Required = 13;

void put_number(std::string& out, uint32_t number, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
    out += static_cast<char>(number >> shift & 255);
}

uint32_t number_at(std::string_view bytes, size_t at, size_t count) {
  uint32_t number = 0;
  for (const char c : bytes.substr(at, count)) number = number << 8 | static_cast<uint8_t>(c);
  return number;
}

void put_frame(std::string& out, Type type, uint8_t flags, uint32_t stream,
               std::string_view payload) {
  put_number(out, static_cast<uint32_t>(payload.size()), 3);
  out += static_cast<char>(type);
  out += static_cast<char>(flags);
  put_number(out, stream, 4);
  out += payload;
}

// A literal field without indexing (RFC 7541 §6.2.2). REQUIRES: less than 127 bytes each.
void put_field(std::string& out, std::string_view name, std::string_view value) {
  out += '\0';
  for (const std::string_view text : {name, value}) {
    out += static_cast<char>(text.size());
    out += text;
  }
}

}  // namespace

Http2Opening opening_of(std::string_view bytes) {
  const std::string_view preface = bytes.substr(0, kHttp2Preface.size());
  if (!kHttp2Preface.starts_with(preface)) return {.broken = true};
  bytes.remove_prefix(preface.size());
  while (bytes.size() >= kFrameHead) {
    const uint32_t length = number_at(bytes, 0, 3);
    if (length > kLargestFrame) return {.broken = true};
    if (bytes[3] == kHeaders) return {.stream = number_at(bytes, 5, 4) & 0x7fffffff};
    bytes.remove_prefix(std::min<size_t>(kFrameHead + length, bytes.size()));
  }
  return {};
}

std::string http2_refusal(uint32_t stream, std::string_view why, std::string_view body) {
  std::string out;
  if (stream > 0) {
    std::string fields;
    put_field(fields, ":status", "505");
    put_field(fields, "content-type", "application/json");
    put_field(fields, "grpc-status", "12");  // UNIMPLEMENTED
    put_field(fields, "grpc-message", why);
    put_frame(out, kHeaders, kEndHeaders, stream, fields);
    put_frame(out, kData, kEndStream, stream, body);
  }
  std::string end;
  put_number(end, stream, 4);
  put_number(end, kHttp11Required, 4);
  end += why;
  put_frame(out, kGoAway, 0, 0, end);
  return out;
}

}  // namespace sluice::gateway
