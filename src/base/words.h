// Lists and suggestions for messages to people. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// Returns "a, b and c"; beyond `most` names "a, b and 7 more". Empty without names.
std::string listed(const std::vector<std::string>& names, size_t most = 8);

// Returns "function 'x' not found; there are a and b", with the nearest name if `name` looks
// misspelled.
std::string not_found(std::string_view noun, const std::string& name,
                      const std::vector<std::string>& names);

// Returns the candidate that a user most likely meant: at most a third of the word's letters, and
// at least one, are wrong, missing, surplus or swapped. Empty if there is none.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// Returns "; did you mean 'apply'?", or nothing if no candidate is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

// Returns the beginning of a text, at most `most` characters, with "…" at the end if it was cut.
// The cut falls between words, so that no number loses digits.
std::string clipped(const std::string& text, size_t most);

// Returns the characters of UTF-8 text, as a terminal counts columns.
size_t width_of(std::string_view text);

}  // namespace sluice
