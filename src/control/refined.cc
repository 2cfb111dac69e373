#include "control/refined.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace sluice::control {
namespace {

constexpr double kLeastRate = 3;    // inferences a second, over the ten seconds of a measurement
constexpr double kSame = 0.1;       // of a factor
constexpr double kMostWrong = 20;   // a factor beyond it is the fault of something else
constexpr Share kLeastBusy = {10};  // of the device; below it the measurement is too coarse

// The least and the most of the device's seconds for an inference, with all of its time.
std::optional<std::pair<double, double>> expected(const Profile& p, int largest_batch, Share sm) {
  std::optional<std::pair<double, double>> found;
  for (const MeasuredPoint& q : p.points) {
    if (q.at.quota != kWhole || q.at.sm != sm || q.at.batch > largest_batch) continue;
    const double each = seconds(q.median) / q.at.batch;
    if (!found) found = {each, each};
    found = {std::min(found->first, each), std::max(found->second, each)};
  }
  return found;
}

}  // namespace

std::optional<Profile> refined(const Profile& estimate, const Instance& instance,
                               const InstanceMeasurements& measured) {
  if (estimate.estimated == 0 || measured.inferences_per_second < kLeastRate ||
      measured.busy < kLeastBusy)
    return std::nullopt;
  const auto range = expected(estimate, std::max(instance.batch, 1), instance.slice().sm);
  if (!range) return std::nullopt;
  const double each = measured.busy.fraction() / measured.inferences_per_second;
  const double factor = each / std::clamp(each, range->first, range->second);
  if (factor < 1 / kMostWrong || factor > kMostWrong) return std::nullopt;
  if (std::abs(factor - 1) < kSame && estimate.estimated <= kRefined) return std::nullopt;
  Profile better = estimate;
  better.estimated = std::min(estimate.estimated, kRefined);
  for (MeasuredPoint& q : better.points) {
    q.median = Micros(std::max<int64_t>(static_cast<int64_t>(seconds(q.median) * factor * 1e6), 1));
    q.p95 = q.median;
    q.throughput = q.at.batch / seconds(q.median);
  }
  return better;
}

Reason said_of(const Profile& before, const Profile& after) {
  const double factor = seconds(after.points[0].median) / seconds(before.points[0].median);
  char text[160];
  std::snprintf(
      text, sizeof text,
      "Its instances need %.2f times the estimated time: the estimate is now that, within "
      "%.0f %% (before: %.0f %%).",
      factor, 100 * after.estimated, 100 * before.estimated);
  return {"refined", text, {{"factor", factor}}};
}

}  // namespace sluice::control
