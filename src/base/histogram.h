// Histogram: durations counted in log-scaled buckets, 8 to an octave from 1 µs to over an hour, so
// a quantile is within 9 % of the truth. Histograms can be merged, and an earlier state can be
// subtracted. A plain value; not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace sluice {

class Histogram {
 public:
  static constexpr int kPerOctave = 8;
  static constexpr int kBuckets = 32 * kPerOctave;

  void add(Nanos value);
  uint64_t count() const { return count_; }
  Nanos sum() const { return sum_; }
  Nanos mean() const { return count_ == 0 ? Nanos(0) : sum_ / static_cast<int64_t>(count_); }

  // Returns the upper bound of the bucket in which the q-quantile (0 … 1) lies; 0 when empty.
  Nanos quantile(double q) const;
  // Returns how many were at most `bound`, to the resolution of a bucket.
  uint64_t at_most(Nanos bound) const;

  Histogram& operator+=(const Histogram& other);
  // Returns what was added since `earlier`.
  // REQUIRES: `earlier` is an earlier state of this one.
  Histogram since(const Histogram& earlier) const;

  // Returns the filled buckets as (index, count), for the wire; the reverse ignores invalid
  // indices.
  std::vector<std::pair<int, uint64_t>> filled() const { return filled_since({}); }
  // Returns since(earlier).filled().
  std::vector<std::pair<int, uint64_t>> filled_since(const Histogram& earlier) const;
  void restore(int bucket, uint64_t count);
  void remove(int bucket, uint64_t count);  // reverses restore()
  void restore_sum(Nanos sum) { sum_ = sum; }

  static int bucket_of(Nanos value);
  static Nanos upper_bound(int bucket);

  bool operator==(const Histogram&) const = default;

 private:
  std::array<uint64_t, kBuckets> counts_{};
  uint64_t count_ = 0;
  Nanos sum_{0};
};

}  // namespace sluice
