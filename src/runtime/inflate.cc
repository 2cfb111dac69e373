#include "runtime/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <memory>

namespace sluice::runtime {
namespace {

constexpr size_t kPiece = 256 * 1024;

bool is_gzip(std::string_view encoding) {
  return encoding == "gzip" || encoding == "x-gzip";
}

}  // namespace

bool inflatable(std::string_view encoding) {
  return is_gzip(encoding) || encoding == "deflate";
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
    // One byte more than is allowed shows that it is too large.
    const size_t had = text.size();
    text.resize(std::min(had + kPiece, most + 1));
    z.next_out = reinterpret_cast<Bytef*>(text.data() + had);
    z.avail_out = static_cast<uInt>(text.size() - had);
    const int outcome = ::inflate(&z, Z_NO_FLUSH);
    text.resize(text.size() - z.avail_out);
    if (text.size() > most)
      return Error{ErrorKind::kExhausted,
                   "body: inflates to more than the " + std::to_string(most) + " bytes allowed"};
    if (outcome == Z_STREAM_END) break;
    if (outcome != Z_OK) return broken(z.avail_in == 0 ? "cut short" : "broken");
  }
  if (z.avail_in > 0) return broken(std::to_string(z.avail_in) + " bytes follow its end");
  return text;
}

}  // namespace sluice::runtime
