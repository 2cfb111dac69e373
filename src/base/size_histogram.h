// SizeHistogram: sizes in bytes, counted by powers of two, and their sum. It travels as a Histogram
// does (histogram.h). A plain value; not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice {

class SizeHistogram {
 public:
  static constexpr int kBuckets = 41;  // the last one takes all above half a TiB

  void add(uint64_t bytes) {
    ++counts_[static_cast<size_t>(bucket_of(bytes))];
    ++count_;
    sum_ += bytes;
  }
  uint64_t count() const { return count_; }
  uint64_t sum() const { return sum_; }
  // Returns the mean; 0 when empty.
  double mean() const {
    return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_);
  }
  // Returns how many were at most `bound`, a power of two.
  uint64_t at_most(uint64_t bound) const;

  SizeHistogram& operator+=(const SizeHistogram& other);

  // Returns the filled buckets as (index, count), for the wire; the reverse ignores invalid
  // indices.
  std::vector<std::pair<int, uint64_t>> filled() const { return filled_since({}); }
  // Returns the buckets that have more than in `earlier`, with what they have more.
  std::vector<std::pair<int, uint64_t>> filled_since(const SizeHistogram& earlier) const;
  void restore(int bucket, uint64_t count);
  void restore_sum(uint64_t sum) { sum_ = sum; }

  // Bucket n holds sizes up to 2ⁿ bytes.
  static int bucket_of(uint64_t bytes);
  static uint64_t upper_bound(int bucket) { return uint64_t{1} << bucket; }

  bool operator==(const SizeHistogram&) const = default;

 private:
  std::array<uint64_t, kBuckets> counts_{};
  uint64_t count_ = 0, sum_ = 0;
};

}  // namespace sluice
