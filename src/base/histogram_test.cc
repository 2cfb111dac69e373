#include "base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace sluice {
namespace {

TEST(Histogram, EveryValueIsAtMostItsBucketsBoundAndCloseToIt) {
  Random random(5);
  for (int i = 0; i < 100'000; ++i) {
    const Nanos value(static_cast<int64_t>(1000 * std::pow(2.0, 30 * random.uniform())));
    const int bucket = Histogram::bucket_of(value);
    EXPECT_LE(value, Histogram::upper_bound(bucket));
    EXPECT_GE(static_cast<double>(value.count()), 0.88 * Histogram::upper_bound(bucket).count());
  }
  EXPECT_EQ(Histogram::bucket_of(Nanos(-5)), 0);
  EXPECT_EQ(Histogram::bucket_of(std::chrono::hours(10'000)), Histogram::kBuckets - 1);
}

TEST(Histogram, QuantilesAreWithinABucketOfTheTruth) {
  Random random(6);
  Histogram h;
  std::vector<Nanos> all;
  for (int i = 0; i < 20'000; ++i) {
    all.push_back(from_millis(random.gamma(2, 10)));
    h.add(all.back());
  }
  std::sort(all.begin(), all.end());
  for (const double q : {0.01, 0.5, 0.95, 0.99, 1.0}) {
    const Nanos truth = all[static_cast<size_t>(q * 19'999)];
    EXPECT_NEAR(millis(h.quantile(q)), millis(truth), 0.13 * millis(truth) + 0.001) << q;
  }
  EXPECT_EQ(Histogram().quantile(0.5), Nanos(0));
}

TEST(Histogram, AddsSubtractsAndTravels) {
  Histogram a, b;
  a.add(Millis(1));
  b = a;
  b.add(Millis(70));
  const Histogram later = b.since(a);
  EXPECT_EQ(later.count(), 1u);
  EXPECT_EQ(later.sum(), Millis(70));
  EXPECT_EQ(later.at_most(Millis(60)), 0u);
  EXPECT_EQ(later.at_most(Millis(90)), 1u);
  Histogram travelled;
  for (const auto& [bucket, count] : b.filled()) travelled.restore(bucket, count);
  travelled.restore_sum(b.sum());
  travelled.restore(-1, 5);
  EXPECT_EQ(travelled, b);
  EXPECT_EQ(b.filled_since(a), later.filled());
  for (const auto& [bucket, count] : later.filled()) travelled.remove(bucket, count);
  EXPECT_EQ(travelled.filled(), a.filled());
  a += later;
  EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace sluice
