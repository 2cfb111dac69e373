// Lists and suggestions for messages to people. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// "a, b and c"; of more than `most`: "a, b and 7 more". Empty of no names.
std::string listed(const std::vector<std::string>& names, size_t most = 8);

// "function 'x' not found; there are a and b", and the near name where `name` looks misspelled.
std::string not_found(std::string_view noun, const std::string& name,
                      const std::vector<std::string>& names);

// The candidate that a user most likely meant: at most a third of the word's letters, and at least
// one, are wrong, missing, surplus or swapped. Empty: there is none.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// "; did you mean 'apply'?", or nothing where no candidate is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

// The beginning of a text of at most `most` characters, which ends with "…" where it was cut. The
// cut falls between words, so that no number loses digits.
std::string clipped(const std::string& text, size_t most);

// Characters of UTF-8 text, as a terminal counts columns.
size_t width_of(std::string_view text);

}  // namespace sluice
