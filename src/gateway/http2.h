// The refusal of HTTP/2 in HTTP/2's own frames (RFC 9113): clients that begin with it, such as
// gRPC's and `curl --http2-prior-knowledge`, show no other answer. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::gateway {

inline constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
inline constexpr std::string_view kHttp2Settings{"\0\0\0\4\0\0\0\0\0", 9};  // the server's: none

// What a client sent first.
struct Http2Opening {
  std::optional<uint32_t> stream;  // the first that it opened; nothing: none yet
  bool broken = false;             // not HTTP/2
};
Http2Opening opening_of(std::string_view bytes);

// Returns an answer of status 505 on that stream, then the end of the connection. Stream 0: the end
// alone. `why` goes to gRPC's clients, `body` to others.
std::string http2_refusal(uint32_t stream, std::string_view why, std::string_view body);

}  // namespace sluice::gateway
