#include "cli/profile_plan.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace sluice::cli {
namespace {

double share_of(const Configuration& at) {
  return at.quota.fraction() * at.sm.fraction();
}

}  // namespace

Nanos ProfilePlan::estimate(const Configuration& at) const {
  const auto larger = whole.upper_bound(at.batch);
  if (larger == whole.begin()) return per_point;
  const auto& [batch, time] = *std::prev(larger);
  const double growth = static_cast<double>(at.batch) / batch;
  const Nanos one(static_cast<int64_t>(static_cast<double>(time.count()) * growth / share_of(at)));
  return one + std::max(per_point, kLeastRuns * one);
}

void ProfilePlan::learn(const MeasuredPoint& point) {
  const double latency = static_cast<double>(point.median.count());
  whole.try_emplace(point.at.batch, Nanos(static_cast<int64_t>(latency * share_of(point.at))));
}

Nanos ProfilePlan::left_after(size_t done) const {
  Nanos sum{0};
  for (size_t i = done; i < points.size(); ++i) sum += estimate(points[i]);
  return sum;
}

Share utilisation(Nanos busy, Nanos elapsed) {
  if (busy <= Nanos(0) || elapsed <= Nanos(0)) return kNone;
  const long permille = std::lround(1000 * seconds(busy) / seconds(elapsed));
  return {static_cast<int>(std::clamp(permille, 1L, long{kWhole.permille}))};
}

}  // namespace sluice::cli
