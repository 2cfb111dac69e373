#include "base/words.h"

#include <algorithm>
#include <functional>

namespace sluice {
namespace {

// Optimal string alignment: a swap of two neighbours, a common typing error, is one fault.
size_t faults(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

}  // namespace

std::string listed(const std::vector<std::string>& names, size_t most) {
  std::string out;
  const bool all = names.size() <= most;
  const size_t shown = all ? names.size() : most;
  for (size_t i = 0; i < shown; ++i)
    out += (i == 0 ? "" : all && i + 1 == shown ? " and " : ", ") + names[i];
  return all ? out : out + " and " + std::to_string(names.size() - shown) + " more";
}

std::string not_found(std::string_view noun, const std::string& name,
                      const std::vector<std::string>& names) {
  std::string out = std::string(noun) + " '" + name + "' not found";
  if (names.empty()) return out + "; there is none";
  out += (names.size() == 1 ? "; there is " : "; there are ") + listed(names);
  return out + did_you_mean(name, names);
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  const size_t allowed = std::max<size_t>(1, word.size() / 3);
  std::string best;
  size_t fewest = allowed + 1;
  for (const std::string& candidate : candidates) {
    const size_t wrong = faults(word, candidate);
    if (wrong >= fewest || wrong >= candidate.size()) continue;
    fewest = wrong;
    best = candidate;
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string near = nearest(word, candidates);
  return near.empty() ? "" : "; did you mean '" + near + "'?";
}

std::string clipped(const std::string& text, size_t most) {
  if (width_of(text) <= most) return text;
  size_t end = 0;
  for (size_t characters = 0; characters < most; ++end)
    if (!continues_character(text[end])) ++characters;  // `end` passes the last one's first byte
  const size_t space = text.find_last_of(" \n", end - 1);
  return (space == std::string::npos ? "" : text.substr(0, space) + " ") + "…";
}

size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, std::not_fn(continues_character)));
}

}  // namespace sluice
