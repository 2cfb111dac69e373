// The fields of a line of a CSV file (RFC 4180), by the names in its first line, and the numbers in
// them. A field in quotes is what stands between them; it holds no quote and no line's end.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/text_file.h"

namespace sluice::trace {

// Returns the whole text as a finite number, or nothing.
std::optional<double> number(std::string_view text);

// Returns the fields of a line, which are views of it, or an error: a quote that is not closed, or
// that stands within a field.
Result<std::vector<std::string_view>> split(const TextFile& file, std::string_view line);

class Header {
 public:
  // Reads the first line, which names the columns.
  static Result<Header> read(TextFile& file);

  // Returns the column's place, or an error that names the columns that there are.
  Result<size_t> column(const TextFile& file, std::string_view name) const;
  size_t size() const { return names_.size(); }

  // Returns the fields of a line, as many as there are columns. They are views of the line.
  Result<std::vector<std::string_view>> fields(const TextFile& file, std::string_view line) const;

 private:
  std::vector<std::string> names_;
};

// Returns the field as a number from `least` to `most`, or an error with the column's name.
Result<double> number_in(const TextFile& file, std::string_view column, std::string_view field,
                         double least, double most);
// The same for a whole number.
Result<int> whole_in(const TextFile& file, std::string_view column, std::string_view field,
                     double least, double most);

// What no recorded table of times has.
inline constexpr double kMostBatch = 1024, kLongestMs = 1e7;

}  // namespace sluice::trace
