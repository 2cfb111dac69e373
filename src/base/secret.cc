#include "base/secret.h"

namespace sluice {

bool same_secret(std::string_view said, std::string_view secret) {
  unsigned different = said.size() == secret.size() ? 0 : 1;
  for (size_t i = 0; i < said.size(); ++i)
    different |= static_cast<unsigned char>(said[i]) ^
                 static_cast<unsigned char>(secret.empty() ? 0 : secret[i % secret.size()]);
  return different == 0;
}

}  // namespace sluice
