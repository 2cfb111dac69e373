#include "base/secret.h"

#include <sys/random.h>

#include <array>

#include "base/check.h"

namespace sluice {

std::string make_secret() {
  std::array<unsigned char, 24> bits{};
  SLUICE_CHECK(getrandom(bits.data(), bits.size(), 0) == ssize_t{bits.size()}, "getrandom");
  std::string text;
  for (const unsigned char byte : bits) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

bool same_secret(std::string_view said, std::string_view secret) {
  unsigned different = said.size() == secret.size() ? 0 : 1;
  for (size_t i = 0; i < said.size(); ++i)
    different |= static_cast<unsigned char>(said[i]) ^
                 static_cast<unsigned char>(secret.empty() ? 0 : secret[i % secret.size()]);
  return different == 0;
}

}  // namespace sluice
