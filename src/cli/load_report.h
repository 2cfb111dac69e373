// A load's results for people and for programs. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/load_run.h"

namespace sluice::cli {

nlohmann::json report_of(const std::vector<LoadResult>& results);
std::string table_of(const std::vector<LoadResult>& results);

// Returns a line for each function that missed its objective, with the measured value. `results`
// are those of `targets`, in their order.
std::vector<std::string> missed_objectives(const std::vector<LoadTarget>& targets,
                                           const std::vector<LoadResult>& results);

// Returns a line for each function whose requests could not be sent as fast as planned.
std::vector<std::string> missed_rates(const std::vector<LoadResult>& results, int connections);

// Returns an error if a function got requests and answered none with 200.
Result<void> anything_answered(const std::vector<LoadResult>& results);
// Returns an error if more than `percent` of a function's requests were not answered with 200.
Result<void> few_failures(const std::vector<LoadResult>& results, double percent);

}  // namespace sluice::cli
