#include "train/group_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::train {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

const std::vector<double> kBytes = {100, 50};

MeasuredStep step(double slower = 1) {
  return {{0.1 * slower, 0.2 * slower}, {0.05 * slower, 0.02 * slower}, 0.25 * slower, 0.01};
}

TEST(FirstSteps, GiveMeansOfComputationAndMediansOfAllReducesFromTheThirdOn) {
  FirstSteps steps;
  for (int i = 0; i < 2; ++i)
    EXPECT_FALSE(steps.add(step(100), kBytes, 8, Millis(100))) << "it connects, and compiles";
  for (const double slower : {1.0, 3.0, 2.0, 4.0, 2.0})
    EXPECT_FALSE(steps.add(step(slower), kBytes, 8, Millis(200)));
  const auto p = steps.add(step(12), kBytes, 8, Seconds(1));
  ASSERT_TRUE(p);
  EXPECT_FALSE(steps.open());
  EXPECT_EQ(p->steps, 6);
  EXPECT_EQ(p->batch, 8);
  EXPECT_EQ(p->bytes, kBytes);
  EXPECT_THAT(p->ready_seconds, ElementsAre(DoubleNear(0.4, 1e-9), DoubleNear(0.8, 1e-9)));
  EXPECT_THAT(p->sum_seconds, ElementsAre(DoubleNear(0.15, 1e-9), DoubleNear(0.06, 1e-9)));
  EXPECT_NEAR(p->compute_seconds, 1, 1e-9);
  EXPECT_NEAR(p->optimizer_seconds, 0.01, 1e-9);
  EXPECT_TRUE(worker_message_from(to_line(*p)).ok());
}

TEST(FirstSteps, StepsOfAnotherBatchDoNotCountAndLongOnesAreFew) {
  FirstSteps steps;
  for (int i = 1; i <= 3; ++i) EXPECT_FALSE(steps.add(step(), kBytes, 8, Millis(900 * i)));
  const auto p = steps.add(step(5), kBytes, 4, Millis(3600));
  ASSERT_TRUE(p);
  EXPECT_EQ(p->steps, 1);
  EXPECT_EQ(p->compute_seconds, 0.25);
}

TEST(FirstSteps, ShortOnesAreAtMostTwoHundred) {
  FirstSteps steps;
  int taken = 0;
  while (!steps.add(step(), kBytes, 8, Millis(1))) ++taken;
  EXPECT_EQ(taken, 201);
}

TEST(FirstSteps, NeighbouringBucketsAreJoinedWhereThereAreTooMany) {
  constexpr size_t kMany = 2 * kMostProfiledBuckets - 1;
  MeasuredStep many{.sums = std::vector<double>(kMany, 0.5), .compute = 1000};
  for (size_t i = 0; i < kMany; ++i) many.ready.push_back(static_cast<double>(i));
  FirstSteps steps;
  const std::vector<double> bytes(kMany, 10);
  for (int i = 0; i < 2; ++i) steps.add(many, bytes, 8, Seconds(1));
  const auto p = steps.add(many, bytes, 8, Seconds(3));
  ASSERT_TRUE(p);
  ASSERT_EQ(p->bytes.size(), kMostProfiledBuckets);
  EXPECT_EQ(p->bytes.front(), 20);
  EXPECT_EQ(p->ready_seconds.front(), 1) << "of the later one";
  EXPECT_EQ(p->sum_seconds.front(), 1);
  EXPECT_EQ(p->bytes.back(), 10);
}

TEST(GroupProfile, OverlapIsWhatAllReducesTakeBesideComputation) {
  GroupProfile p{.workers = {.count = 2}, .batch = 8, .bytes = kBytes, .sum_seconds = {0.1, 0.1}};
  p.step = {4, {0.1, 0.3}, 0.3, 0};
  EXPECT_DOUBLE_EQ(all_reduce_time(p), 0.2);
  EXPECT_DOUBLE_EQ(overlap_of(p), 0.5) << "the second one begins with the end of computation";
  p.step.compute_seconds = 1;
  EXPECT_DOUBLE_EQ(overlap_of(p), 1);
  p.step = {4, {0.3, 0.3}, 0.3, 0};
  EXPECT_DOUBLE_EQ(overlap_of(p), 0);
  p.sum_seconds = {0, 0};
  EXPECT_DOUBLE_EQ(overlap_of(p), 0);
}

}  // namespace
}  // namespace sluice::train
