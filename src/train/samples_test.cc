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

// Whatever batches and numbers of workers follow each other, the shards cover each epoch once.
TEST(ShardProperty, CoverEachSampleOnceAnEpoch) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int64_t samples = random.between(1, 500);
    std::vector<int> used(static_cast<size_t>(samples));
    JobPosition at;
    int64_t steps = 0;
    for (; at.epoch < 2; ++steps) {
      const SampleRange all = step_range(at, random.between(1, 70), samples);
      const int world = static_cast<int>(random.between(1, 9));
      int64_t next = all.begin;
      for (int rank = 0; rank < world; ++rank) {
        const SampleRange mine = shard(all, rank, world);
        EXPECT_EQ(mine.begin, next);
        EXPECT_GE(mine.count(), all.count() / world);
        EXPECT_LE(mine.count(), all.count() / world + 1);
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
