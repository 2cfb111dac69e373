// `sluice profile --table FILE`: the profiler's search plans over times that were measured before,
// and how far each one's choice is from the best of all of them.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace sluice::cli {

struct TableSearch {
  std::string table;  // a file that trace/time_tables.h reads, or one of `sluice profile -o json`
  std::string model;  // of the table's; empty: all
  std::string plan;   // empty: all
  // The longest that a batch may take: so many times the shortest in the table, unless stated.
  double times_shortest = 4;
  std::optional<Nanos> in_time;
  int most_trials = 1000;
  bool trials = false;  // list them
};

Result<void> search_in_table(const TableSearch& search, bool as_json);

}  // namespace sluice::cli
