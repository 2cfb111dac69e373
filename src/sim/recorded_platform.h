// What a platform recorded in its store: its functions, its profiles, and its arrivals of the last
// two weeks. The store is only read; the platform may run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/profiles.h"
#include "model/function.h"
#include "sim/arrivals.h"

namespace sluice::sim {

struct RecordedPlatform {
  std::vector<FunctionSpec> functions;  // as they were applied last, by name
  control::Profiles profiles;
  // By the minute; all end before the last minute in which any request came, because the store may
  // have a part of that one. A minute's arrivals are inferences. Functions without arrivals have
  // none.
  std::map<FunctionName, RatePlan> loads;
  Nanos recorded{0};  // from the first minute with an arrival to that end
};

// Takes the last `duration` of the arrivals, or all if there is less.
Result<RecordedPlatform> read_platform(const std::string& path, Nanos duration);

}  // namespace sluice::sim
