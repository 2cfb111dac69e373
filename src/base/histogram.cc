#include "base/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace sluice {

// Bucket 8k + j holds values up to 2^k · (1 + (j + 1)/8) µs: linear within an octave, which is
// exact in integers and close enough to logarithmic.
int Histogram::bucket_of(Nanos value) {
  const int64_t ns = std::max<int64_t>(value.count(), 0);
  const uint64_t eighths = static_cast<uint64_t>(ns) / 125;  // of a microsecond
  if (eighths < 8) return 0;
  const int octave = 63 - std::countl_zero(eighths) - 3;
  const int part = static_cast<int>(eighths >> octave) - 8;
  return std::min(octave * kPerOctave + part, kBuckets - 1);
}

Nanos Histogram::upper_bound(int bucket) {
  const int octave = bucket / kPerOctave, part = bucket % kPerOctave;
  return Nanos((int64_t{9} + part) * 125 << octave);
}

void Histogram::add(Nanos value) {
  ++counts_[static_cast<size_t>(bucket_of(value))];
  ++count_;
  sum_ += value;
}

Nanos Histogram::quantile(double q) const {
  if (count_ == 0) return Nanos(0);
  const uint64_t rank =
      std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(q * static_cast<double>(count_))));
  uint64_t seen = 0;
  for (int i = 0; i < kBuckets; ++i) {
    seen += counts_[static_cast<size_t>(i)];
    if (seen >= rank) return upper_bound(i);
  }
  return upper_bound(kBuckets - 1);
}

uint64_t Histogram::at_most(Nanos bound) const {
  uint64_t n = 0;
  for (int i = 0; i < kBuckets && upper_bound(i) <= bound; ++i)
    n += counts_[static_cast<size_t>(i)];
  return n;
}

Histogram& Histogram::operator+=(const Histogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  return *this;
}

Histogram Histogram::since(const Histogram& earlier) const {
  Histogram out = *this;
  for (size_t i = 0; i < kBuckets; ++i) out.counts_[i] -= earlier.counts_[i];
  out.count_ -= earlier.count_;
  out.sum_ -= earlier.sum_;
  return out;
}

std::vector<std::pair<int, uint64_t>> Histogram::filled_since(const Histogram& earlier) const {
  std::vector<std::pair<int, uint64_t>> out;
  for (size_t i = 0; i < kBuckets; ++i)
    if (counts_[i] > earlier.counts_[i])
      out.emplace_back(static_cast<int>(i), counts_[i] - earlier.counts_[i]);
  return out;
}

void Histogram::restore(int bucket, uint64_t count) {
  if (bucket < 0 || bucket >= kBuckets) return;
  counts_[static_cast<size_t>(bucket)] += count;
  count_ += count;
}

void Histogram::remove(int bucket, uint64_t count) {
  if (bucket < 0 || bucket >= kBuckets) return;
  counts_[static_cast<size_t>(bucket)] -= count;
  count_ -= count;
}

}  // namespace sluice
