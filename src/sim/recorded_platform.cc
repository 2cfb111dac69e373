#include "sim/recorded_platform.h"

#include <algorithm>

#include "control/local/store.h"
#include "control/routes.h"

namespace sluice::sim {
namespace {

constexpr Nanos kMinute = Seconds(60);
constexpr double kFastestRecorded = 1e6;  // what a load may have

using Minutes = std::map<int64_t, uint32_t>;  // arrivals by the minute since 1970; none is 0

Minutes minutes_of(const std::vector<control::ArrivalHour>& hours) {
  Minutes minutes;
  for (const control::ArrivalHour& h : hours)
    for (size_t m = 0; m < h.arrivals.size(); ++m)
      if (h.arrivals[m] > 0) minutes[h.hour * 60 + static_cast<int64_t>(m)] = h.arrivals[m];
  return minutes;
}

// Of the minutes [begin, end); equal neighbours are one step.
RatePlan plan_between(const Minutes& minutes, int64_t begin, int64_t end) {
  RatePlan plan;
  const auto add = [&](int64_t length, uint32_t arrivals) {
    const double rate = std::min(arrivals / 60.0, kFastestRecorded);
    if (length <= 0) return;
    if (!plan.empty() && plan.back().rate == rate)
      plan.back().duration += length * kMinute;
    else
      plan.push_back({length * kMinute, rate});
  };
  int64_t at = begin;
  for (auto m = minutes.lower_bound(begin); m != minutes.end() && m->first < end; ++m) {
    add(m->first - at, 0);
    add(1, m->second);
    at = m->first + 1;
  }
  add(end - at, 0);
  return plan;
}

}  // namespace

Result<RecordedPlatform> read_platform(const std::string& path, Nanos duration) {
  SLUICE_ASSIGN(store, control::Store::open_read_only(path));
  SLUICE_ASSIGN(stored, store.functions());
  RecordedPlatform platform;
  std::map<FunctionName, Minutes> arrivals;
  int64_t first = INT64_MAX, end = INT64_MIN;
  for (const control::StoredFunction& f : stored) {
    if (f.revisions.empty()) continue;
    // How long its steps take is not recorded.
    if (!control::spec_of(f, f.newest).is_inference()) continue;
    platform.functions.push_back(control::spec_of(f, f.newest));
    SLUICE_ASSIGN(hours, store.arrivals(f.name));
    Minutes minutes = minutes_of(hours);
    if (minutes.empty()) continue;
    first = std::min(first, minutes.begin()->first);
    end = std::max(end, minutes.rbegin()->first);  // the newest may be in progress
    arrivals.emplace(f.name, std::move(minutes));
  }
  SLUICE_ASSIGN(profiles, store.profiles());
  platform.profiles = std::move(profiles);
  if (first >= end) return platform;
  platform.recorded = (end - first) * kMinute;
  const int64_t asked = (duration + kMinute - Nanos(1)) / kMinute;
  for (const auto& [name, minutes] : arrivals)
    platform.loads.emplace(name, plan_between(minutes, std::max(first, end - asked), end));
  return platform;
}

}  // namespace sluice::sim
