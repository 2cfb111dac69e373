// Text of a user's program (errors, names, log lines) made fit for people. Everything of it that
// the platform shows, logs or stores passes here: it cannot command a terminal, or look like a line
// of ours. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

inline constexpr size_t kMostOfAProgramsText = 1000;  // bytes

// Returns one line of valid UTF-8. Tabs and ends of lines become spaces; other control characters,
// marks that change the direction of writing, and invalid bytes become "\uFFFD". A text that is
// longer than `most` bytes ends with "…".
std::string printable(std::string_view text, size_t most = kMostOfAProgramsText);

}  // namespace sluice
