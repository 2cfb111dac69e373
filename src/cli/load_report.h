// A load's results for people and for programs. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/load_run.h"

namespace sluice::cli {

nlohmann::json report_of(const std::vector<LoadResult>& results);
std::string table_of(const std::vector<LoadResult>& results);

// An error when a function was sent requests and answered none with 200.
Result<void> anything_answered(const std::vector<LoadResult>& results);
// An error when more than `percent` of a function's requests were not answered with 200.
Result<void> few_failures(const std::vector<LoadResult>& results, double percent);

}  // namespace sluice::cli
