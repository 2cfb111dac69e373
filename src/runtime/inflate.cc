#include "runtime/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <memory>

namespace sluice::runtime {
namespace {

constexpr size_t kPiece = 256 * 1024;

// `name` is in lower case.
bool is(std::string_view encoding, std::string_view name) {
  return std::ranges::equal(encoding, name, [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
  });
}

bool is_gzip(std::string_view encoding) {
  return is(encoding, "gzip") || is(encoding, "x-gzip");
}

}  // namespace

bool is_identity(std::string_view encoding) {
  return is(encoding, "identity");
}

bool inflatable(std::string_view encoding) {
  return is_gzip(encoding) || is(encoding, "deflate");
}

Result<std::string> inflate_body(std::string_view body, std::string_view encoding, size_t most) {
  const auto broken = [&](const std::string& why) {
    return Error{ErrorKind::kInvalid,
                 "body: no " + std::string(encoding) + " as its Content-Encoding says: " + why};
  };
  if (body.size() > std::numeric_limits<uInt>::max()) return broken("too large");
  z_stream z{};
  const int window = MAX_WBITS + (is_gzip(encoding) ? 16 : 0);
  if (inflateInit2(&z, window) != Z_OK) return Error{ErrorKind::kInternal, "body: no memory"};
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&z, inflateEnd);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(body.data()));
  z.avail_in = static_cast<uInt>(body.size());
  std::string text;
  for (;;) {
    if (z.avail_out == 0) {
      // One byte more than allowed shows that it is too large.
      const size_t had = text.size();
      text.resize(std::min(had + kPiece, most + 1));
      z.next_out = reinterpret_cast<Bytef*>(text.data() + had);
      z.avail_out = static_cast<uInt>(text.size() - had);
    }
    const int outcome = ::inflate(&z, Z_NO_FLUSH);
    if (text.size() - z.avail_out > most)
      return Error{ErrorKind::kExhausted,
                   "body: inflates to more than the " + std::to_string(most) + " bytes allowed"};
    if (outcome == Z_STREAM_END && z.avail_in == 0) break;
    // A gzip body may consist of several members (RFC 1952 §2.2).
    if (outcome == Z_STREAM_END && is_gzip(encoding) && inflateReset(&z) == Z_OK) continue;
    if (outcome == Z_STREAM_END)
      return broken(std::to_string(z.avail_in) + " bytes follow its end");
    if (outcome != Z_OK) return broken(z.avail_in == 0 ? "cut short" : "broken");
  }
  text.resize(text.size() - z.avail_out);
  return text;
}

}  // namespace sluice::runtime
