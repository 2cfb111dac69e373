// fapes_sizes: the numbers of devices that are tried for a job.
#include "policy/plan/fapes_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/deal_table.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Lt;
using testing::SizeIs;

constexpr BatchRange kLargeBatch{.least = 6400, .most = 6400};

FapesSizes sizes_in(std::vector<int> devices, const DealtJob& shape, int granule = 2) {
  DealTable t(devices);
  return fapes_sizes(t.job("j", shape), granule, *std::ranges::max_element(devices));
}

TEST(FapesSizes, GoByTheGranuleFromTheLeastToTheMost) {
  const auto sizes = [](int least, int most) {
    return sizes_in({8},
                    {.least = least, .most = most, .step = step_linear(), .batch = kLargeBatch})
        .sizes;
  };
  EXPECT_THAT(sizes(1, 0), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(sizes(3, 7), ElementsAre(3, 4, 6, 7));
  EXPECT_THAT(sizes(1, 1), ElementsAre(1)) << "fewer than a granule, as it may have no more";
  EXPECT_THAT(sizes(9, 16), IsEmpty()) << "there are only eight";
}

TEST(FapesSizes, NodesOfOneDeviceGiveOneAtATime) {
  EXPECT_THAT(sizes_in({1, 1, 1}, {.step = step_linear(), .batch = kLargeBatch}).sizes,
              ElementsAre(1, 2, 3));
}

TEST(FapesSizes, LargeOnesAreFartherApart) {
  const BatchRange large{.least = 1 << 20, .most = 1 << 20};
  const FapesSizes all =
      sizes_in(std::vector<int>(1000, 8), {.step = step_linear(), .batch = large});
  EXPECT_THAT(all.sizes, SizeIs(Lt(50)));
  EXPECT_EQ(all.sizes.front(), 2);
  EXPECT_EQ(all.sizes.back(), 8000);
}

TEST(FapesSizes, EndAtTheFastest) {
  // Two workers exchange for longer than they save.
  const FapesSizes alone = sizes_in({8}, {.step = step_best_alone()});
  EXPECT_THAT(alone.sizes, ElementsAre(2));
  EXPECT_GT(alone.alone, alone.throughput);
  // Beyond a node the exchange takes too long.
  const FapesSizes node = sizes_in({8, 8}, {.step = step_within_a_node()});
  EXPECT_EQ(node.sizes.back(), 8);
  EXPECT_EQ(node.best, 8);
}

TEST(FapesSizes, AJobThatWasNeverMeasuredHasTheFirst) {
  EXPECT_THAT(sizes_in({8}, {}).sizes, ElementsAre(2));
  EXPECT_THAT(sizes_in({8}, {.least = 3}).sizes, ElementsAre(3));
}

TEST(FapesSizes, AJobWhoseBatchAllowsNoSizeHasNone) {
  const BatchRange tiny{.least = 1, .most = 1};
  EXPECT_THAT(sizes_in({8}, {.step = step_linear(), .batch = tiny}).sizes, IsEmpty());
}

TEST(FapesSizes, BoundsAreTheFastestJobsAndTheSlowestAlone) {
  DealTable t({8});
  t.job("short", {.step = step_linear(), .batch = kLargeBatch, .samples = 80'000});
  t.job("long", {.step = step_linear(), .batch = kLargeBatch, .samples = 9'000'000});
  const FapesSizes a = fapes_sizes(t.table.jobs[0], 2, 8), b = fapes_sizes(t.table.jobs[1], 2, 8);
  const FapesBounds bounds = fapes_bounds({&t.table.jobs[0], &t.table.jobs[1]}, {&a, &b});
  EXPECT_NEAR(bounds.least, 10, 1e-6) << "80 s ÷ 8 devices";
  EXPECT_NEAR(bounds.most, 9000, 1e-6);
  EXPECT_EQ(fapes_bounds({}, {}).most, 0);
}

}  // namespace
}  // namespace sluice::policy
