#include "base/size_histogram.h"

#include <gmock/gmock.h>

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(SizeHistogram, ABucketHoldsSizesUpToAPowerOfTwo) {
  EXPECT_EQ(SizeHistogram::bucket_of(0), 0);
  EXPECT_EQ(SizeHistogram::bucket_of(1), 0);
  for (int n = 1; n < SizeHistogram::kBuckets - 1; ++n) {
    const uint64_t bound = SizeHistogram::upper_bound(n);
    EXPECT_EQ(SizeHistogram::bucket_of(bound), n);
    EXPECT_EQ(SizeHistogram::bucket_of(bound + 1), n + 1);
  }
  EXPECT_EQ(SizeHistogram::bucket_of(UINT64_MAX), SizeHistogram::kBuckets - 1);
}

TEST(SizeHistogram, AddsSubtractsAndTravels) {
  SizeHistogram a;
  EXPECT_EQ(a.mean(), 0);
  a.add(100);
  SizeHistogram b = a;
  b.add(3000);
  b.add(3000);
  EXPECT_EQ(b.count(), 3u);
  EXPECT_EQ(b.sum(), 6100u);
  EXPECT_THAT(b.filled_since(a), ElementsAre(Pair(12, 2u)));
  EXPECT_EQ(b.at_most(128), 1u);
  EXPECT_EQ(b.at_most(4096), 3u);
  EXPECT_THAT(b.filled(), ElementsAre(Pair(7, 1u), Pair(12, 2u)));
  SizeHistogram travelled;
  for (const auto& [bucket, count] : b.filled()) travelled.restore(bucket, count);
  travelled.restore_sum(b.sum());
  travelled.restore(-1, 5);
  travelled.restore(SizeHistogram::kBuckets, 5);
  EXPECT_EQ(travelled, b);
  travelled += a;
  EXPECT_EQ(travelled.count(), 4u);
  EXPECT_EQ(travelled.sum(), 6200u);
}

}  // namespace
}  // namespace sluice
