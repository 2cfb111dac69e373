#include "control/refined.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace sluice::control {
namespace {

constexpr double kLeastRate = 3;    // inferences a second, over the ten seconds of a measurement
constexpr double kMostWrong = 20;   // a factor beyond it is the fault of something else
constexpr Share kLeastBusy = {10};  // of the device; below it the measurement is too coarse

// The least and the most of the device's seconds for an inference, with all of its time and work always waiting: one
// batch alone may run within a burst, faster than the device sustains.
std::optional<std::pair<double, double>> expected(const Profile& p, int largest, Share sm) {
  std::optional<std::pair<double, double>> found;
  for (const MeasuredPoint& q : p.points) {
    if (q.at.quota != kWhole || q.at.sm != sm || q.at.batch > largest) continue;
    const double each =
        std::max(seconds(q.median) / q.at.batch, q.throughput > 0 ? 1 / q.throughput : 0);
    if (!found) found = {each, each};
    found = {std::min(found->first, each), std::max(found->second, each)};
  }
  return found;
}

// The most requests that a batch had on average: by Little's law, those that the instance had at a time ÷ the part of the
// time in which it had any, which is no shorter than it was busy.
int largest_batch(const Instance& instance, const InstanceMeasurements& m) {
  const int most = std::max(instance.batch, 1);
  if (m.latency <= Nanos(0)) return most;
  const double mean = m.inferences_per_second * seconds(m.latency) / m.busy.fraction();
  return mean < most ? std::max(static_cast<int>(std::ceil(mean)), 1) : most;
}

// What all needed of their devices ÷ what was expected of them.
std::optional<double> factor_of(const Profile& profile, std::span<const Evidence> evidence) {
  double needed = 0, foreseen = 0;
  for (const auto& [instance, measured] : evidence) {
    const double rate = measured->inferences_per_second, busy = measured->busy.fraction();
    if (rate < kLeastRate || measured->busy < kLeastBusy) continue;
    const auto range = expected(profile, largest_batch(*instance, *measured), instance->slice().sm);
    if (!range) continue;
    needed += busy;
    foreseen += rate * std::clamp(busy / rate, range->first, range->second);
  }
  if (foreseen <= 0) return std::nullopt;
  return needed / foreseen;
}

// A tenth for an estimate; two measurements of one model may differ by more than that.
bool little(double factor, bool estimate) {
  return std::abs(factor - 1) < (estimate ? 0.1 : 0.2);
}

}  // namespace

std::optional<Profile> refined(const Profile& profile, std::span<const Evidence> evidence) {
  const bool estimate = profile.estimated > 0;
  const std::optional<double> found = factor_of(profile, evidence);
  if (!found || *found < 1 / kMostWrong || *found > kMostWrong) return std::nullopt;
  Profile better = profile;
  better.live = profile.live * *found;
  if (!estimate) better.live = std::clamp(better.live, 1.0, kMostCorrected);
  better.estimated = std::min(profile.estimated, kRefined);
  const double factor = better.live / profile.live;
  if (little(factor, estimate) && better.estimated == profile.estimated) return std::nullopt;
  for (MeasuredPoint& q : better.points) {
    q.median = Micros(std::max<int64_t>(std::llround(seconds(q.median) * factor * 1e6), 1));
    q.p95 = estimate ? q.median : Micros(std::llround(seconds(q.p95) * factor * 1e6));
    q.throughput = estimate ? q.at.batch / seconds(q.median) : q.throughput / factor;
  }
  return better;
}

Reason said_of(const Profile& before, const Profile& after) {
  const double factor = after.live / before.live;
  char text[240];
  if (after.estimated > 0)
    std::snprintf(text, sizeof text,
                  "Its instances need %.2f times the estimated time: the estimate is now that, "
                  "within %.0f %% (before: %.0f %%).",
                  factor, 100 * after.estimated, 100 * before.estimated);
  else if (after.live >= kMostCorrected)
    std::snprintf(text, sizeof text,
                  "Its instances need more than %.0f times the measured time, by which decisions "
                  "go now: measure it again (sluice profile --full).",
                  kMostCorrected);
  else
    std::snprintf(text, sizeof text,
                  "Its instances need %.2f times the measured time, beside their neighbours and "
                  "with these requests: decisions go by that.",
                  after.live);
  return {"refined", text, {{"factor", factor}}};
}

}  // namespace sluice::control
