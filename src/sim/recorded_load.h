// Loads that were recorded elsewhere, as a simulation plays them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "sim/arrivals.h"
#include "trace/rates.h"

namespace sluice::sim {

// A rate that changes evenly does so in at most 3,600 steps, of a second where that suffices, each
// with the rate of its middle. Returns kInvalid if that makes more than ten million steps.
Result<RatePlan> plan_of(const trace::Rates& rates);

// Returns when requests of that function arrive, since the file's first one and before `until`; the
// rest of the file is not read. All are the function's if the file has no functions. At most fifty
// million.
Result<std::vector<Nanos>> read_arrivals(const std::string& path, const std::string& function,
                                         Nanos until = Nanos::max());

}  // namespace sluice::sim
