#include "base/printable.h"

#include <cstdint>

namespace sluice {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: invalid
};

// Decodes the first character, without surrogates, overlong forms and codes beyond Unicode.
Character first_of(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  uint32_t code = lead & (0x7FU >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3FU);
  }
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kLeast[bytes] || code > 0x10FFFF || surrogate) return {};
  return {code, bytes};
}

bool is_space(uint32_t c) {
  return c == '\t' || c == '\n' || c == '\r' || c == 0x85 || c == 0x2028 || c == 0x2029;
}
bool is_control(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0);
}
bool turns_writing(uint32_t c) {
  return c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069);
}

}  // namespace

std::string printable(std::string_view text, size_t most) {
  constexpr std::string_view kCut = "…";
  std::string out;
  size_t fits = 0;  // bytes of `out` that leave a place for kCut
  while (!text.empty()) {
    const Character c = first_of(text);
    if (c.bytes == 0 || (is_control(c.code) && !is_space(c.code)) || turns_writing(c.code))
      out += kReplacement;
    else if (is_space(c.code))
      out += ' ';
    else
      out += text.substr(0, c.bytes);
    if (out.size() > most) return out.substr(0, fits).append(kCut);
    if (out.size() + kCut.size() <= most) fits = out.size();
    text.remove_prefix(c.bytes == 0 ? 1 : c.bytes);
  }
  return out;
}

}  // namespace sluice
