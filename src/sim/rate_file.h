// A rate file: how many requests a second, step by step. One step a line, `#` starts a comment:
//
//   12.5        for one step (1 s unless said otherwise)
//   5s 12.5     for five seconds; also ms, m
//
// Rates may be relative: they are multiplied by `scale`.
#pragma once

#include <string_view>

#include "base/result.h"
#include "sim/arrivals.h"

namespace sluice::sim {

struct RateFileOptions {
  Nanos step = Seconds(1);
  double scale = 1;
};

// Returns kInvalid with the line, the text and the allowed range. At most a million steps of a day
// each.
Result<RatePlan> parse_rates(std::string_view text, const RateFileOptions& options = {});

// Reads "1500ms", "5s", "2m", "1h"; a plain number is seconds. From 1 ms (a plan of shorter steps
// would not end) to a day.
Result<Nanos> parse_duration(std::string_view text);

// Returns the plan cut to its first `duration`, or repeated until it is as long.
RatePlan fit_to(const RatePlan& plan, Nanos duration);

}  // namespace sluice::sim
