// ArrivalHistory: a function's requested inferences in each second of the last 10 minutes and in
// each minute of the last 14 days. The loop fills it, and so can a simulator.
//
// Its times are durations since an origin that its owner chooses; the loop's is 1970. A minute and
// an hour begin at multiples of their length. A plain value of at most 100 KB; an hour without
// arrivals takes no memory. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/clock.h"

namespace sluice {

class ArrivalHistory {
 public:
  static constexpr int kSeconds = 600;
  static constexpr int kHours = 14 * 24;
  static constexpr int kMinutes = kHours * 60;
  using Hour = std::array<uint32_t, 60>;  // the arrivals of its minutes

  // Counts arrivals as spread evenly over [from, to). Of an interval longer than kSeconds, only the
  // part within its last kSeconds counts. REQUIRES: 0 <= from <= to.
  //
  // The owner's clock may be set back. An interval that ends before the newest second counts in
  // that second. If it ends more than kSeconds before, the seconds and the later hours are
  // forgotten.
  void add(Nanos from, Nanos to, uint64_t arrivals);
  // Takes over an hour that an earlier history counted, in place of what is known of it.
  void restore(int64_t hour, const Hour& arrivals);

  // The arrivals in each of the last n whole seconds or minutes, oldest first. Returns fewer where
  // the history has not lasted so long. A minute in which nothing was counted has 0.
  std::vector<uint32_t> per_second(int n) const;
  std::vector<uint32_t> per_minute(int n) const;

  // The minute of the newest interval's end, which may get more arrivals. Before the first
  // interval, the beginning of the newest hour that was restored.
  int64_t newest_minute() const;
  // By number since the origin; of the last kHours, those with arrivals.
  const std::map<int64_t, Hour>& hours() const { return hours_; }

  bool operator==(const ArrivalHistory&) const = default;

 private:
  void begin(Nanos from);
  void advance(int64_t second);
  void put(int64_t second, uint64_t arrivals);

  int64_t first_ = -1;   // whole second; -1: nothing was added
  int64_t newest_ = -1;  // in progress
  // Of second s: [s mod kSlots]. The second in progress has a slot beside the whole ones.
  static constexpr int kSlots = kSeconds + 1;
  std::array<uint32_t, kSlots> seconds_{};
  std::map<int64_t, Hour> hours_;
};

// The lengths of the runs of zeros between two counts that are not zero, oldest first.
std::vector<int> idle_gaps(std::span<const uint32_t> counts);

}  // namespace sluice
