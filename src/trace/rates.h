// Rates recorded elsewhere: how many requests per second a function got, over time. Each reader
// takes one published format; the numbers may be relative, and are multiplied by `scale`. Pure but
// for the file that is read.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace sluice::trace {

// The rate goes linearly from `from` to `to`.
struct RateStep {
  Nanos length{};
  double from = 0, to = 0;  // requests per second, at most a million

  bool operator==(const RateStep&) const = default;
};
using Rates = std::vector<RateStep>;  // at most a million steps

struct RateOptions {
  double scale = 1;
  Nanos every = Seconds(1);  // the length of a step, where the format does not say it
  // Of a file with several functions: its number from 1, or 8 characters of its name. Of a file of
  // jobs: their kind.
  std::string row;
};

struct RateFormat {
  std::string_view name;
  std::string_view summary;
  Result<Rates> (*read)(const std::string& path, const RateOptions& options);
};

// lines          one rate a line, each for a step (INFless, Dilu)
// azure-minutes  Azure Functions 2019: a line per function, columns 1, 2, … or minute_1, … with
//                invocations. A name that several rows have is an error.
// has-gpu        HAS-GPU's JSON: processed_request_counts, each over parameters.duration
// k6             k6's stages as CSV: target_rps, ramp_seconds; the rate goes from one target to the
//                next, beginning at 0
// openb-pods, dilu-instances
//                lists of jobs (clusters.h): the rate is the number of GPUs that those of a kind
//                hold, as they come and go. Such a list has no requests; one GPU stands for one a
//                second.
std::span<const RateFormat> rate_formats();

Result<Rates> read_rates(std::string_view format, const std::string& path,
                         const RateOptions& options);

// Returns the expected number of requests.
double requests_in(const Rates& rates);
Nanos length_of(const Rates& rates);

}  // namespace sluice::trace
