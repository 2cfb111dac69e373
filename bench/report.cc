#include "bench/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <numeric>

namespace sluice::bench {
namespace {

// Nearest rank, on sorted values.
double quantile(const std::vector<double>& sorted, double q) {
  const double rank = std::ceil(q * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, std::isfinite(v) ? "%.6g" : "null", v);
  return text;
}

std::string quoted(std::string_view s) {
  std::string out = "\"";
  for (const char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

std::string json(const std::string& bench, const Row& r) {
  const bool has_reference = !r.reference.empty();
  return "{\"bench\": " + quoted(bench) + ", \"case\": " + quoted(r.case_name) +
         ", \"value\": " + number(r.value) + ", \"unit\": " + quoted(r.unit) +
         ", \"reference\": " + (has_reference ? quoted(r.reference) : "null") +
         ", \"reference_value\": " + (has_reference ? number(r.reference_value) : "null") +
         ", \"ratio\": " + (has_reference ? number(r.ratio) : "null") +
         ", \"goal\": " + (r.goal.empty() ? "null" : quoted(r.goal)) +
         ", \"met\": " + (r.met ? (*r.met ? "true" : "false") : "null") +
         ", \"n\": " + std::to_string(r.n) + ", \"spread\": " + number(r.spread) + "}";
}

// Several benchmarks may write to one file: the list continues where it ended.
bool append(const std::string& path, const std::vector<std::string>& rows) {
  std::string text;
  if (std::ifstream in(path); in)
    text.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  const size_t end = text.find_last_of(']');
  text = end == std::string::npos ? "[" : text.substr(0, end);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  for (const std::string& row : rows) text += (text == "[" ? "\n " : ",\n ") + row;
  std::ofstream out(path, std::ios::trunc);
  out << text << "\n]\n";
  return out.flush().good();
}

Row& judge(Row& row, const char* relation, double bound, bool met, const char* unit) {
  row.goal = std::string(relation) + " " + number(bound) + unit;
  row.met = met;
  return row;
}

}  // namespace

Samples summarise(std::vector<double> values) {
  Samples s;
  if (values.empty()) return s;
  std::sort(values.begin(), values.end());
  s.n = static_cast<int>(values.size());
  s.p50 = quantile(values, 0.50);
  s.p95 = quantile(values, 0.95);
  s.p99 = quantile(values, 0.99);
  s.min = values.front();
  s.max = values.back();
  s.mean = std::accumulate(values.begin(), values.end(), 0.0) / s.n;
  s.spread = (quantile(values, 0.75) - quantile(values, 0.25)) / 2;
  return s;
}

Row& Row::beside(std::string what, double measured) {
  reference = std::move(what);
  reference_value = measured;
  ratio = measured != 0 ? value / measured : 0;
  return *this;
}
Row& Row::of(const Samples& s) {
  n = s.n;
  spread = s.spread;
  return *this;
}
Row& Row::at_most(double b) {
  return judge(*this, "<=", b, value <= b, (" " + unit).c_str());
}
Row& Row::at_least(double b) {
  return judge(*this, ">=", b, value >= b, (" " + unit).c_str());
}
Row& Row::ratio_at_most(double b) {
  return judge(*this, "<=", b, ratio <= b, "x");
}
Row& Row::ratio_at_least(double b) {
  return judge(*this, ">=", b, ratio >= b, "x");
}

Report::Report(std::string name, int& argc, char** argv) : name_(std::move(name)) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view(argv[i]) != "--json") continue;
    json_path_ = argv[i + 1];
    std::copy(argv + i + 2, argv + argc, argv + i);
    argc -= 2;
    break;
  }
}

void Report::add(const Row& row) {
  rows_.push_back(row);
}
void Report::note(std::string_view line) {
  notes_.emplace_back(line);
}

void Report::fail(std::string_view why) {
  failed_ = true;
  notes_.push_back("FAILED: " + std::string(why));
}

int Report::finish() {
  std::printf("%-44s %12s %-6s %12s %8s  %-12s %s\n", name_.c_str(), "value", "unit", "reference",
              "ratio", "goal", "");
  for (const Row& r : rows_) {
    const std::string reference = r.reference.empty() ? "" : number(r.reference_value);
    const std::string ratio = r.reference.empty() ? "" : number(r.ratio);
    std::printf("  %-42s %12s %-6s %12s %8s  %-12s %s  (n=%d ±%s%s%s)\n", r.case_name.c_str(),
                number(r.value).c_str(), r.unit.c_str(), reference.c_str(), ratio.c_str(),
                r.goal.c_str(), r.met ? (*r.met ? "met" : "NOT MET") : "", r.n,
                number(r.spread).c_str(), r.reference.empty() ? "" : "; beside ",
                r.reference.c_str());
  }
  for (const std::string& line : notes_) std::printf("  %s\n", line.c_str());
  if (const double stolen = stolen_.percent(); stolen >= 0.05)
    std::printf("  the machine's host gave %.1f %% of the processors' time to others\n", stolen);
  if (json_path_.empty()) return failed_ ? 1 : 0;
  std::vector<std::string> rows;
  for (const Row& r : rows_) rows.push_back(json(name_, r));
  if (!append(json_path_, rows)) {
    std::fprintf(stderr, "%s: cannot write %s\n", name_.c_str(), json_path_.c_str());
    return 1;
  }
  return failed_ ? 1 : 0;
}

std::string text_argument(int argc, char** argv, std::string_view name, std::string otherwise) {
  for (int i = 1; i + 1 < argc; ++i)
    if (argv[i] == name) return argv[i + 1];
  return otherwise;
}

int int_argument(int argc, char** argv, std::string_view name, int otherwise) {
  const std::string text = text_argument(argc, argv, name);
  return text.empty() ? otherwise : std::atoi(text.c_str());
}

}  // namespace sluice::bench
