#include "sim/recorded_load.h"

#include <algorithm>

#include "trace/arrivals.h"

namespace sluice::sim {
namespace {

constexpr size_t kMostArrivals = 50'000'000;

constexpr int64_t kMostOfRamp = 3600;
constexpr size_t kMostSteps = 10'000'000;

void add_ramp(RatePlan& plan, const trace::RateStep& ramp) {
  const int64_t steps = std::min((ramp.length + Seconds(1) - Nanos(1)) / Seconds(1), kMostOfRamp);
  for (int64_t k = 0; k < steps; ++k) {
    const double middle = (static_cast<double>(k) + 0.5) / static_cast<double>(steps);
    plan.push_back({ramp.length / steps, ramp.from + (ramp.to - ramp.from) * middle});
  }
}

}  // namespace

Result<RatePlan> plan_of(const trace::Rates& rates) {
  RatePlan plan;
  for (const trace::RateStep& step : rates) {
    if (plan.size() > kMostSteps)
      return Error{ErrorKind::kInvalid, "the load has more than 10000000 steps"};
    if (step.from == step.to)
      plan.push_back({step.length, step.from});
    else
      add_ramp(plan, step);
  }
  return plan;
}

Result<std::vector<Nanos>> read_arrivals(const std::string& path, const std::string& function,
                                         Nanos until) {
  SLUICE_ASSIGN(file, trace::ArrivalFile::open(path));
  std::vector<Nanos> times;
  while (true) {
    SLUICE_ASSIGN(arrival, file.next());
    if (!arrival || arrival->at >= until) break;
    if (!arrival->function.empty() && arrival->function != function) continue;
    if (times.size() == kMostArrivals)
      return Error{ErrorKind::kInvalid, path + ": more than 50000000 arrivals"};
    times.push_back(std::chrono::round<Micros>(arrival->at));
  }
  if (times.empty())
    return Error{ErrorKind::kInvalid,
                 path + ": no line within the duration is of function '" + function + "'"};
  return times;
}

}  // namespace sluice::sim
