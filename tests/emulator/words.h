// Small texts of the emulator: blank-separated words, most of them key=number. Pure.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace sluice::emulator {

class Words {
 public:
  explicit Words(std::string_view text) : left_(text) {}
  std::optional<std::string_view> next() {
    const std::size_t begin = left_.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return std::nullopt;
    left_.remove_prefix(begin);
    const std::string_view word = left_.substr(0, left_.find_first_of(" \t\r"));
    left_.remove_prefix(word.size());
    return word;
  }

 private:
  std::string_view left_;
};

inline std::pair<std::string_view, std::string_view> split(std::string_view word) {
  const std::size_t at = word.find('=');
  if (at == std::string_view::npos) return {word, {}};
  return {word.substr(0, at), word.substr(at + 1)};
}

inline std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace sluice::emulator
