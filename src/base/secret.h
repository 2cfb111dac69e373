// Makes secrets, and compares them with untrusted input.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// Returns 192 bits of the kernel's, as 48 hexadecimal digits.
std::string make_secret();

// Takes equally long wherever they differ, so that a secret cannot be guessed byte by byte.
bool same_secret(std::string_view said, std::string_view secret);

}  // namespace sluice
