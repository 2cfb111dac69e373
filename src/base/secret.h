// Secrets that are compared with what a stranger says.
#pragma once

#include <string_view>

namespace sluice {

// Takes as long wherever they differ: a secret must not be guessed byte by byte.
bool same_secret(std::string_view said, std::string_view secret);

}  // namespace sluice
