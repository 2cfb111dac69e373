#include "base/size_histogram.h"

#include <algorithm>
#include <bit>

namespace sluice {

int SizeHistogram::bucket_of(uint64_t bytes) {
  return bytes <= 1 ? 0 : std::min(static_cast<int>(std::bit_width(bytes - 1)), kBuckets - 1);
}

SizeHistogram& SizeHistogram::operator+=(const SizeHistogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  return *this;
}

uint64_t SizeHistogram::at_most(uint64_t bound) const {
  uint64_t n = 0;
  for (int i = 0; i < kBuckets && upper_bound(i) <= bound; ++i)
    n += counts_[static_cast<size_t>(i)];
  return n;
}

std::vector<std::pair<int, uint64_t>> SizeHistogram::filled_since(
    const SizeHistogram& earlier) const {
  std::vector<std::pair<int, uint64_t>> out;
  for (size_t i = 0; i < kBuckets; ++i)
    if (counts_[i] > earlier.counts_[i])
      out.emplace_back(static_cast<int>(i), counts_[i] - earlier.counts_[i]);
  return out;
}

void SizeHistogram::restore(int bucket, uint64_t count) {
  if (bucket < 0 || bucket >= kBuckets) return;
  counts_[static_cast<size_t>(bucket)] += count;
  count_ += count;
}

}  // namespace sluice
