#include "cli/table.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <sstream>

#include "base/printable.h"
#include "base/words.h"

namespace sluice::cli {
namespace {

bool is_number(const std::string& s) {
  return !s.empty() && s.find_first_not_of("0123456789.-+%") == s.npos && s != "-";
}

// The last character of UTF-8 text.
void drop_character(std::string& text) {
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80) text.pop_back();
  if (!text.empty()) text.pop_back();
}

}  // namespace

// A cell is one line without control characters, whatever program its text comes from.
void Table::add(std::vector<std::string> row) {
  for (std::string& cell : row) cell = printable(cell, SIZE_MAX);
  rows_.push_back(std::move(row));
}

std::string Table::text() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_)
    for (size_t c = 0; c < row.size(); ++c) {
      if (c == widths.size()) widths.push_back(0);
      widths[c] = std::max(widths[c], width_of(row[c]));
    }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string pad(widths[c] - width_of(row[c]), ' ');
      line += is_number(row[c]) ? pad + row[c] : row[c] + pad;
      if (c + 1 < row.size()) line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string fitted(const std::string& text, size_t columns, size_t rows) {
  std::istringstream in(text);
  std::string out, line;
  for (size_t row = 1; row < rows && std::getline(in, line); ++row) {
    if (width_of(line) > columns) {
      while (width_of(line) >= columns) drop_character(line);
      line += "…";
    }
    out += line + "\n";
  }
  return out;
}

std::string fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", decimals, value);
  return text;
}

std::string percent(int permille) {
  return permille % 10 == 0 ? std::to_string(permille / 10) + "%" : fixed(permille / 10.0, 1) + "%";
}

std::string bytes(long long n) {
  const char* units[] = {"", "Ki", "Mi", "Gi", "Ti"};
  double value = static_cast<double>(n);
  int unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  return fixed(value, value < 10 && unit > 0 ? 1 : 0) + units[unit];
}

std::string age(long long ms) {
  const long long s = ms / 1000;
  if (s < 120) return std::to_string(s) + "s";
  if (s < 7200) return std::to_string(s / 60) + "m";
  if (s < 172'800) return std::to_string(s / 3600) + "h";
  return std::to_string(s / 86'400) + "d";
}

}  // namespace sluice::cli
