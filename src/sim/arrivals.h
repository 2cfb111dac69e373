// The send times of an open-loop load: arrivals of a renewal process whose rate follows a plan. The
// gaps are drawn with mean 1 and scaled by the rate (time rescaling). So a plan's changes take
// effect in the middle of a gap, and the expected number of arrivals is exactly the plan's area.
// Pure: the caller provides the seed. Not thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/random.h"

namespace sluice::sim {

struct RateStep {
  Nanos duration{0};
  double rate = 0;  // requests per second

  bool operator==(const RateStep&) const = default;
};
using RatePlan = std::vector<RateStep>;

Nanos total_duration(const RatePlan&);
double total_requests(const RatePlan&);

struct Gaps {
  enum class Kind { kConstant, kPoisson, kGamma } kind = Kind::kPoisson;
  double cv = 1;  // of a Gamma distribution
};

class Arrivals {
 public:
  Arrivals(RatePlan plan, Gaps gaps, uint64_t seed);

  // Returns the next arrival, from the start of the plan; nothing once the plan has ended.
  std::optional<Nanos> next();

 private:
  double draw();  // a gap with mean 1

  RatePlan plan_;
  Gaps gaps_;
  Random random_;
  size_t step_ = 0;
  double step_begin_ = 0;  // seconds
  double at_ = 0;          // seconds; within the step
};

}  // namespace sluice::sim
