#include "model/arrival_history.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

constexpr int64_t kSecondsOfHour = 3600;

void add_to(uint32_t& count, uint64_t arrivals) {
  count = static_cast<uint32_t>(std::min<uint64_t>(UINT32_MAX, count + arrivals));
}

}  // namespace

void ArrivalHistory::add(Nanos from, Nanos to, uint64_t arrivals) {
  if (newest_ < 0 || to < Seconds(newest_ - kSeconds)) begin(from);
  advance(std::chrono::floor<Seconds>(to).count());
  if (arrivals == 0) return;
  if (from >= to || to < Seconds(newest_)) return put(newest_, arrivals);
  // Cumulative, so that the parts add up to the whole.
  const auto until = [&](Nanos t) {
    const double part = seconds(t - from) / seconds(to - from);
    return static_cast<uint64_t>(std::llround(static_cast<double>(arrivals) * part));
  };
  const int64_t oldest = newest_ - kSeconds;
  int64_t second = std::max(std::chrono::floor<Seconds>(from).count(), oldest);
  uint64_t before = until(std::max<Nanos>(from, Seconds(second)));
  for (; second <= newest_; ++second) {
    const uint64_t now = until(std::min<Nanos>(to, Seconds(second + 1)));
    put(second, now - before);
    before = now;
  }
}

void ArrivalHistory::restore(int64_t hour, const Hour& arrivals) {
  hours_[hour] = arrivals;
}

void ArrivalHistory::begin(Nanos from) {
  first_ = std::chrono::ceil<Seconds>(from).count();
  newest_ = std::chrono::floor<Seconds>(from).count();
  seconds_ = {};
  hours_.erase(hours_.upper_bound(newest_ / kSecondsOfHour), hours_.end());
}

void ArrivalHistory::advance(int64_t second) {
  if (second <= newest_) return;
  for (int64_t s = std::max(newest_ + 1, second - kSeconds); s <= second; ++s)
    seconds_[static_cast<size_t>(s % kSlots)] = 0;
  newest_ = second;
  const int64_t oldest = newest_ / kSecondsOfHour - kHours;
  if (!hours_.empty() && hours_.begin()->first < oldest)
    hours_.erase(hours_.begin(), hours_.lower_bound(oldest));
}

void ArrivalHistory::put(int64_t second, uint64_t arrivals) {
  if (arrivals == 0) return;
  add_to(seconds_[static_cast<size_t>(second % kSlots)], arrivals);
  add_to(hours_[second / kSecondsOfHour][static_cast<size_t>(second / 60 % 60)], arrivals);
}

std::vector<uint32_t> ArrivalHistory::per_second(int n) const {
  const int64_t known = std::clamp<int64_t>(newest_ - first_, 0, kSeconds);
  std::vector<uint32_t> out;
  for (int64_t s = newest_ - std::min<int64_t>(n, known); s < newest_; ++s)
    out.push_back(seconds_[static_cast<size_t>(s % kSlots)]);
  return out;
}

int64_t ArrivalHistory::newest_minute() const {
  if (newest_ >= 0) return newest_ / 60;
  return hours_.empty() ? 0 : hours_.rbegin()->first * 60;
}

std::vector<uint32_t> ArrivalHistory::per_minute(int n) const {
  if (newest_ < 0) return {};
  const int64_t newest = newest_minute();
  int64_t first = first_ / 60;
  if (!hours_.empty()) first = std::min(first, hours_.begin()->first * 60);
  first = std::max(first, newest - std::min(n, kMinutes));
  std::vector<uint32_t> out(static_cast<size_t>(std::max<int64_t>(0, newest - first)));
  for (auto hour = hours_.lower_bound(first / 60); hour != hours_.end(); ++hour)
    for (int64_t m = 0; m < 60; ++m) {
      const int64_t at = hour->first * 60 + m - first;
      if (at >= 0 && at < newest - first)
        out[static_cast<size_t>(at)] = hour->second[static_cast<size_t>(m)];
    }
  return out;
}

std::vector<int> idle_gaps(std::span<const uint32_t> counts) {
  std::vector<int> gaps;
  int zeros = 0;
  bool arrived = false;
  for (const uint32_t count : counts) {
    if (count == 0) {
      ++zeros;
      continue;
    }
    if (arrived && zeros > 0) gaps.push_back(zeros);
    arrived = true;
    zeros = 0;
  }
  return gaps;
}

}  // namespace sluice
