// A table for a terminal: columns as wide as their widest cell, numbers to the right. Pure.
#pragma once

#include <string>
#include <vector>

namespace sluice::cli {

class Table {
 public:
  explicit Table(std::vector<std::string> head) : rows_{std::move(head)} {}
  void add(std::vector<std::string> row);
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Returns a text fitted to a terminal of that size: longer lines end with "…", further lines are
// left out.
std::string fitted(const std::string& text, size_t columns, size_t rows);

std::string fixed(double value, int decimals);  // "12.3"
std::string percent(int permille);              // "20%", "12.5%"
std::string bytes(long long n);                 // "1.5Gi"
std::string age(long long milliseconds);        // "12s", "5m", "3h", "2d"

}  // namespace sluice::cli
