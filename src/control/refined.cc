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
constexpr double kAsMeasured = 1.1;
constexpr double kSameEstimate = 0.1, kSameMeasurement = 0.2;  // of a factor
constexpr double kMostUncertain = 1, kSameBound = 0.05;

// The least and the most of the device's seconds for an inference, with all of its time and work
// always waiting: one batch alone may run within a burst, faster than the device sustains.
std::optional<std::pair<double, double>> expected(const Profile& p, int largest, Share sm) {
  std::optional<std::pair<double, double>> found;
  for (const MeasuredPoint& q : p.points) {
    if (q.at.quota != kWhole || q.at.sm != sm || q.at.batch > largest) continue;
    const double each =
        p.live * std::max(seconds(q.median) / q.at.batch, q.throughput > 0 ? 1 / q.throughput : 0);
    if (!found) found = {each, each};
    found = {std::min(found->first, each), std::max(found->second, each)};
  }
  return found;
}

// The most requests that a batch had on average: by Little's law, those that the instance had at a
// time ÷ the part of the time in which it had any. That is no shorter than its device was busy;
// part of a core can be busy for longer than that in a burst.
int largest_batch(const Evidence& e) {
  const int most = std::max(e.instance->batch, 1);
  if (e.measured->latency <= Nanos(0)) return most;
  const bool is_cpu = e.device->kind == DeviceKind::kCpu;
  const double cores = is_cpu ? std::min(e.device->millicores / 1000.0, 1.0) : 1;
  const double working = e.measured->busy.fraction() * cores;
  const double mean = e.measured->inferences_per_second * seconds(e.measured->latency) / working;
  return mean < most ? std::max(static_cast<int>(std::ceil(mean)), 1) : most;
}

// What both say; 1 where they say the opposite.
double agreed(double a, double b) {
  if ((a > 1) != (b > 1)) return 1;
  return std::abs(std::log(a)) < std::abs(std::log(b)) ? a : b;
}

double apart(double a, double b) {
  return std::max(a, b) / std::min(a, b) - 1;
}

// How far an estimate may be off: what its looks leave open, and at least as far as they are apart.
// One look alone may be off by half of what it corrects.
double bound_of(const Profile& profile, const Need& need, const Need* before) {
  const double left = std::min(profile.estimated, std::max(kRefined, need.spread));
  const double between =
      before == nullptr ? apart(need.factor, 1) / 2 : apart(need.factor, before->factor);
  const double bound = std::max(left, std::min(between, kMostUncertain));
  return std::abs(bound - profile.estimated) < kSameBound ? profile.estimated : bound;
}

// The live factor of a measurement whose instances need so many times its times.
double corrected(double needed, double live) {
  if (needed < kAsMeasured) return 1;
  if (std::abs(needed / live - 1) < kSameMeasurement) return live;
  return std::min(needed, kMostCorrected);
}

}  // namespace

std::optional<Need> need_of(const Profile& profile, std::span<const Evidence> evidence) {
  double needed = 0, foreseen = 0, least = 0, most = 0;
  for (const Evidence& e : evidence) {
    const double rate = e.measured->inferences_per_second, busy = e.measured->busy.fraction();
    if (rate < kLeastRate || e.measured->busy < kLeastBusy) continue;
    const auto range = expected(profile, largest_batch(e), e.instance->slice().sm);
    if (!range) continue;
    needed += busy;
    foreseen += rate * std::clamp(busy / rate, range->first, range->second);
    least += rate * range->first;
    most += rate * range->second;
  }
  if (foreseen <= 0) return std::nullopt;
  const double factor = needed / foreseen;
  if (factor < 1 / kMostWrong || factor > kMostWrong) return std::nullopt;
  return Need{factor, most / least - 1};
}

std::optional<Profile> refined(const Profile& profile, const Need& need, const Need* before) {
  Profile better = profile;
  const bool estimate = profile.estimated > 0;
  if (before == nullptr && (!estimate || profile.live != 1)) return std::nullopt;
  const double factor = before == nullptr ? need.factor : agreed(need.factor, before->factor);
  if (!estimate)
    better.live = corrected(profile.live * factor, profile.live);
  else if (std::abs(factor - 1) >= kSameEstimate)
    better.live = profile.live * factor;
  if (estimate) better.estimated = bound_of(profile, need, before);
  if (better == profile) return std::nullopt;
  return better;
}

Reason said_of(const Profile& before, const Profile& after) {
  const double factor = after.live / before.live;
  char text[240];
  if (after.estimated > 0)
    std::snprintf(text, sizeof text,
                  "Its instances need %.2f times as long as estimated: the estimate is now that, "
                  "off by about %.0f %% (before: %.0f %%).",
                  factor, 100 * after.estimated, 100 * before.estimated);
  else if (after.live == 1)
    std::snprintf(text, sizeof text, "Its instances need as long as was measured again.");
  else if (after.live >= kMostCorrected)
    std::snprintf(
        text, sizeof text,
        "Its instances need %.0f times as long as was measured, or more: measure it again "
        "(sluice profile --full).",
        kMostCorrected);
  else
    std::snprintf(text, sizeof text,
                  "Its instances need %.2f times as long as was measured, beside their neighbours "
                  "and with these requests: decisions go by that.",
                  after.live);
  return {"refined", text, {{"factor", factor}}};
}

}  // namespace sluice::control
