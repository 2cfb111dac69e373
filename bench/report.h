// The output of every benchmark: a table for people and, with --json FILE, rows for machines.
//
//   Report report("permit", argc, argv);            // takes --json FILE out of the arguments
//   report.add(Row("fast path p50", ns, "ns").beside("unix socket", socket_ns).at_most(10));
//   return report.finish();
//
// A reference is measured in the same run. A benchmark whose reference did no work, or
// whose answers are wrong, calls fail(): its figures mean nothing. Where the machine's host took
// some of the processors' time meanwhile, the table says how much. Not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/stolen_time.h"

namespace sluice::bench {

struct Samples {
  int n = 0;
  double p50 = 0, p95 = 0, p99 = 0, min = 0, max = 0, mean = 0;
  double spread = 0;  // half the distance between the quartiles
};
Samples summarise(std::vector<double> values);

struct Row {
  Row(std::string c, double v, std::string u)
      : case_name(std::move(c)), value(v), unit(std::move(u)) {}

  Row& beside(std::string what, double measured);  // sets ratio = value ÷ measured
  Row& of(const Samples& s);                       // n and spread
  Row& at_most(double bound);
  Row& at_least(double bound);
  Row& ratio_at_most(double bound);  // after beside()
  Row& ratio_at_least(double bound);

  std::string case_name;
  double value;
  std::string unit;
  std::string reference;
  double reference_value = 0;
  double ratio = 0;
  std::string goal;
  std::optional<bool> met;  // nothing: no goal
  int n = 1;
  double spread = 0;
};

class Report {
 public:
  Report(std::string name, int& argc, char** argv);

  void add(const Row& row);
  void note(std::string_view line);  // printed, not part of the rows
  void fail(std::string_view why);
  // Prints the table, appends the rows to FILE (a JSON list), and returns the process's exit
  // status. A missed goal is a figure, not a failure.
  int finish();

 private:
  std::string name_;
  std::string json_path_;
  std::vector<Row> rows_;
  std::vector<std::string> notes_;
  bool failed_ = false;
  StolenTime stolen_;
};

// Returns the value of `--name VALUE` among the arguments, or `otherwise`.
std::string text_argument(int argc, char** argv, std::string_view name, std::string otherwise = "");
int int_argument(int argc, char** argv, std::string_view name, int otherwise);

}  // namespace sluice::bench
