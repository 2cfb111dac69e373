#include "train/samples.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace sluice::train {
namespace {

TEST(EpochOrder, IsAPermutationThatDependsOnSeedAndEpoch) {
  std::vector<uint32_t> order = epoch_order(1, 0, 1000);
  EXPECT_EQ(order, epoch_order(1, 0, 1000));
  EXPECT_NE(order, epoch_order(1, 1, 1000));
  EXPECT_NE(order, epoch_order(2, 0, 1000));
  EXPECT_NE(epoch_order(1, 1, 1000), epoch_order(2, 0, 1000));
  std::sort(order.begin(), order.end());
  for (uint32_t i = 0; i < 1000; ++i) EXPECT_EQ(order[i], i);
}

// Whatever batches and numbers of workers follow each other, the shards cover each epoch once, and
// none has a single sample unless the batch, the data set or the function's bound does.
TEST(ShardProperty, CoverEachSampleOnceAnEpochAndNoneIsOfOne) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int64_t samples = random.between(1, 500);
    const int64_t least_batch = random.between(1, 3);
    const int least = static_cast<int>(random.between(1, 2));
    std::vector<int> used(static_cast<size_t>(samples));
    JobPosition at;
    int64_t steps = 0;
    for (; at.epoch < 2; ++steps) {
      const int64_t batch = random.between(least_batch, 70);
      const SampleRange all = step_range(at, batch, samples);
      EXPECT_LE(all.count(), std::max<int64_t>(batch, 3));
      const bool ones = least_batch == 1 || samples == 1;
      EXPECT_GE(all.count(), ones ? 1 : 2);
      const int world = static_cast<int>(random.between(1, 9));
      const int count = parts(all, world, least);
      int64_t next = all.begin;
      for (int rank = 0; rank < world; ++rank) {
        const SampleRange mine = shard(all, rank, world, least);
        EXPECT_EQ(mine.begin, next);
        EXPECT_GE(mine.count(), rank < count ? all.count() / count : 0);
        EXPECT_LE(mine.count(), rank < count ? all.count() / count + 1 : 0);
        EXPECT_TRUE(mine.count() == 0 || mine.count() >= least || all.count() < least);
        for (int64_t i = mine.begin; i < mine.end; ++i) ++used[static_cast<size_t>(i)];
        next = mine.end;
      }
      EXPECT_EQ(next, all.end);
      at = after(at, all, samples);
    }
    EXPECT_EQ(at, (JobPosition{steps, 2, 0}));
    EXPECT_EQ(used, std::vector<int>(static_cast<size_t>(samples), 2));
  }
}

}  // namespace
}  // namespace sluice::train
