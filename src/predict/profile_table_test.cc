#include "predict/profile_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace sluice::predict {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const FunctionName kF{"default", "f"};

ProfilePoint point(int batch, int sm, int quota, Nanos latency, double throughput = 0) {
  return {{batch, {sm}, {quota}}, latency, latency, throughput};
}

ProfileTable table(std::vector<ProfilePoint> points, Nanos window = Millis(20)) {
  ProfileTable t(window);
  t.set({kF, 1, Bytes{64} << 20, std::move(points)});
  return t;
}

double ms(const ProfileTable& t, int batch, int sm, int quota) {
  return millis(t.latency(kF, 1, {batch, {sm}, {quota}}).value());
}

TEST(ProfileTable, MeasuredPointsAreAnsweredAsTheyAre) {
  const ProfileTable t = table({point(1, 500, 1000, Millis(20)), point(1, 1000, 1000, Millis(12)),
                                point(4, 1000, 1000, Millis(30))});
  EXPECT_DOUBLE_EQ(ms(t, 1, 500, 1000), 20);
  EXPECT_DOUBLE_EQ(ms(t, 4, 1000, 1000), 30);
  EXPECT_THAT(t.batches(kF, 1), ElementsAre(1, 4));
  EXPECT_THAT(t.sms(kF, 1), ElementsAre(Share{500}, kWhole));
  EXPECT_EQ(t.memory(kF, 1), Bytes{64} << 20);
}

TEST(ProfileTable, TheUnknownIsUnknown) {
  const ProfileTable t = table({point(1, 1000, 1000, Millis(10))});
  EXPECT_EQ(t.latency(kF, 2, {}), std::nullopt);
  EXPECT_EQ(t.latency({"default", "g"}, 1, {}), std::nullopt);
  EXPECT_EQ(t.latency(kF, 1, {1, kWhole, kNone}), std::nullopt);
  EXPECT_EQ(t.throughput(kF, 2, {}), 0);
  EXPECT_THAT(t.batches(kF, 2), IsEmpty());
  EXPECT_THAT(t.sms(kF, 2), IsEmpty());
  EXPECT_EQ(t.memory(kF, 2), std::nullopt);
}

TEST(ProfileTable, AQuotaNeverMeasuredCostsItsInverseAndTheWaitForTheTurn) {
  const ProfileTable t = table({point(1, 1000, 1000, Millis(10))}, Millis(20));
  EXPECT_DOUBLE_EQ(ms(t, 1, 1000, 500), 10 / 0.5 + 0.5 * 20);
  EXPECT_NEAR(ms(t, 1, 1000, 100), 10 / 0.1 + 0.9 * 20, 1e-6);
}

TEST(ProfileTable, UnderAFullQueueNobodyWaitsForTheTurn) {
  const ProfileTable t = table({point(1, 1000, 1000, Millis(10))}, Millis(20));
  EXPECT_NEAR(t.throughput(kF, 1, {1, kWhole, {200}}), 20, 1e-6);
}

TEST(ProfileTable, MeasuredThroughputHoldsOverBatchByLatency) {
  const ProfileTable t = table({point(4, 1000, 1000, Millis(10), 500)});
  EXPECT_NEAR(t.throughput(kF, 1, {4, kWhole, kWhole}), 500, 1e-3);
}

TEST(ProfileTable, MeasuredQuotasAreInterpolatedByTheirInverse) {
  const ProfileTable t = table({point(1, 1000, 1000, Millis(10)), point(1, 1000, 500, Millis(26))});
  EXPECT_NEAR(ms(t, 1, 1000, 750), 10 + 16 * (1 / 0.75 - 1), 1e-5);
  EXPECT_NEAR(ms(t, 1, 1000, 250), 26 * 2 + 0.5 * 20, 1e-5);
}

TEST(ProfileTable, WidthsByTheirInverseBatchesLinearly) {
  const ProfileTable t = table({point(1, 500, 1000, Millis(20)), point(1, 1000, 1000, Millis(12)),
                                point(4, 500, 1000, Millis(50)), point(4, 1000, 1000, Millis(30))});
  EXPECT_NEAR(ms(t, 1, 800, 1000), 12 + 8 * 0.25, 1e-5);
  EXPECT_NEAR(ms(t, 1, 250, 1000), 40, 1e-5);
  EXPECT_NEAR(ms(t, 2, 1000, 1000), 18, 1e-5);
  EXPECT_NEAR(ms(t, 8, 1000, 1000), 60, 1e-5);
}

TEST(ProfileTable, IsMonotoneWhateverWasMeasured) {
  const uint64_t seed = 23;
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<ProfilePoint> points;
    for (uint64_t n = 1 + random.below(20); n > 0; --n) {
      points.push_back(point(1 << random.below(4), 250 * static_cast<int>(1 + random.below(4)),
                             100 * static_cast<int>(1 + random.below(10)),
                             Micros(1 + random.below(50000)),
                             random.chance(0.5) ? 1 + random.uniform() * 100 : 0));
    }
    const ProfileTable t = table(points);
    const auto any = [&] {
      return Configuration{static_cast<int>(1 + random.below(12)),
                           {static_cast<int>(1 + random.below(1000))},
                           {static_cast<int>(1 + random.below(1000))}};
    };
    for (int i = 0; i < 50; ++i) {
      const Configuration a = any(), b = any();
      const Configuration less{std::max(a.batch, b.batch), std::min(a.sm, b.sm),
                               std::min(a.quota, b.quota)};
      const Configuration more{std::min(a.batch, b.batch), std::max(a.sm, b.sm),
                               std::max(a.quota, b.quota)};
      ASSERT_LE(t.latency(kF, 1, more).value(), t.latency(kF, 1, less).value() + Nanos(1));
      const Configuration same_batch{less.batch, more.sm, more.quota};
      ASSERT_GE(t.throughput(kF, 1, same_batch) * (1 + 1e-6), t.throughput(kF, 1, less));
    }
  }
}

}  // namespace
}  // namespace sluice::predict
