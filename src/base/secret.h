// Secrets: made, and compared with what a stranger says.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// 192 bits of the kernel's, as 48 hexadecimal digits.
std::string make_secret();

// Takes as long wherever they differ: a secret must not be guessed byte by byte.
bool same_secret(std::string_view said, std::string_view secret);

}  // namespace sluice
