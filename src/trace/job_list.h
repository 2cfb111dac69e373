// Training jobs recorded elsewhere, a line of a CSV file each. The published lists agree on what a
// job is and not on the names of the columns, so the caller may rename them. Pure but for the file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace sluice::trace {

struct ListedJob {
  Nanos submitted{};  // since the first one that was read
  std::string name;   // empty: the list has none
  std::string model;  // the same
  double epochs = 0;  // 0: the list does not say
  Nanos duration{0};  // on its devices; 0: the list does not say
  int devices = 0;    // 0: the list does not say
  int priority = 0;

  bool operator==(const ListedJob&) const = default;
};

struct JobListOptions {
  // The list's column for a field: submit, name, model, epochs, duration, devices or priority. A
  // field that is not here has the column of its own name, if there is one.
  std::map<std::string, std::string> columns;
  size_t skip = 0;       // jobs at the beginning
  size_t most = 10'000;  // jobs that are read; the rest is left out
};

// Returns them by submission. Times of submission are seconds or calendar times.
Result<std::vector<ListedJob>> read_job_list(const std::string& path,
                                             const JobListOptions& options);

// The fields that a column may stand for.
const std::vector<std::string>& job_list_fields();

}  // namespace sluice::trace
