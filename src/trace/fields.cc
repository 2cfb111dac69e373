#include "trace/fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/words.h"

namespace sluice::trace {
namespace {

std::string_view trimmed(std::string_view s) {
  const size_t first = s.find_first_not_of(" \t");
  if (first == s.npos) return {};
  return s.substr(first, s.find_last_not_of(" \t") - first + 1);
}

// As a person would write it: 86400, 0.25, 1e+06.
std::string shown(double value) {
  char text[32];
  const auto [end, fault] = std::to_chars(text, text + sizeof text, value);
  return fault == std::errc() ? std::string(text, end) : std::string();
}

}  // namespace

Result<std::vector<std::string_view>> split(const TextFile& file, std::string_view line) {
  std::vector<std::string_view> fields;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t quote = line.find_first_not_of(" \t", begin);
    const bool quoted = quote != line.npos && line[quote] == '"';
    const size_t closed = quoted ? line.find('"', quote + 1) : begin;
    if (closed == line.npos) return file.error("a quote is not closed in this line");
    const size_t end = std::min(line.find(',', closed), line.size());
    std::string_view field = trimmed(line.substr(begin, end - begin));
    if (quoted && field.size() == closed - quote + 1) field = field.substr(1, field.size() - 2);
    if (field.find('"') != field.npos)
      return file.error("field " + std::to_string(fields.size() + 1) + ": a quote stands within '" +
                        clipped(std::string(field), 40) + "'");
    fields.push_back(field);
    begin = end + 1;
  }
  return fields;
}

std::optional<double> number(std::string_view text) {
  text = trimmed(text);
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

Result<Header> Header::read(TextFile& file) {
  SLUICE_ASSIGN(line, file.next_with_content());
  if (!line) return file.error("the file is empty; its first line names the columns");
  Header header;
  SLUICE_ASSIGN(names, split(file, *line));
  for (const std::string_view name : names) header.names_.emplace_back(name);
  return header;
}

Result<size_t> Header::column(const TextFile& file, std::string_view name) const {
  const auto found = std::ranges::find(names_, name);
  if (found != names_.end()) return static_cast<size_t>(found - names_.begin());
  return file.error("there is no column '" + std::string(name) + "'; there are " + listed(names_));
}

Result<std::vector<std::string_view>> Header::fields(const TextFile& file,
                                                     std::string_view line) const {
  SLUICE_ASSIGN(fields, split(file, line));
  if (fields.size() == names_.size()) return fields;
  return file.error("the line has " + std::to_string(fields.size()) +
                    " fields; the first line names " + std::to_string(names_.size()));
}

Result<double> number_in(const TextFile& file, std::string_view column, std::string_view field,
                         double least, double most) {
  const std::optional<double> value = number(field);
  if (value && *value >= least && *value <= most) return *value;
  return file.error(std::string(column) + ": '" + clipped(std::string(field), 40) +
                    "' is no number from " + shown(least) + " to " + shown(most));
}

Result<int> whole_in(const TextFile& file, std::string_view column, std::string_view field,
                     double least, double most) {
  SLUICE_ASSIGN(value, number_in(file, column, field, least, most));
  if (value != std::floor(value))
    return file.error(std::string(column) + ": '" + clipped(std::string(field), 40) +
                      "' is not a whole number");
  return static_cast<int>(value);
}

}  // namespace sluice::trace
