#include "predict/profile_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace sluice::predict {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const FunctionName kName{"default", "f"};
const DeviceType kHere{"cpu/500m"};
const ModelOnDevice kF{.function = kName, .revision = 1, .device = kHere};
const ModelOnDevice kOther{.function = kName, .revision = 2, .device = kHere};

MeasuredPoint point(int batch, int sm, int quota, Nanos latency, double throughput = 0) {
  return {{batch, {sm}, {quota}}, latency, latency, throughput};
}

ProfileTable table(std::vector<MeasuredPoint> points) {
  ProfileTable t;
  t.learn({kF, Bytes{64} << 20, std::move(points)});
  return t;
}

Prediction predicted(const ProfileTable& t, int batch, int sm, int quota) {
  return t.predict(kF, {batch, {sm}, {quota}}).value();
}

double ms(const ProfileTable& t, int batch, int sm, int quota) {
  return millis(predicted(t, batch, sm, quota).median);
}

TEST(ProfileTable, MeasuredPointsAreAnsweredAsTheyAre) {
  const ProfileTable t = table({point(1, 500, 1000, Millis(20)), point(1, 1000, 1000, Millis(12)),
                                point(4, 1000, 1000, Millis(30))});
  EXPECT_DOUBLE_EQ(ms(t, 1, 500, 1000), 20);
  EXPECT_DOUBLE_EQ(ms(t, 4, 1000, 1000), 30);
  EXPECT_THAT(t.candidates(kF).batches, ElementsAre(1, 4));
  EXPECT_THAT(t.candidates(kF).sms, ElementsAre(Share{500}, kWhole));
  EXPECT_EQ(t.memory(kF), Bytes{64} << 20);
}

TEST(ProfileTable, TheUnknownIsUnknown) {
  const ProfileTable t = table({point(1, 1000, 1000, Millis(10))});
  const FunctionName g{"default", "g"};
  EXPECT_FALSE(t.predict(kF, {1, kWhole, kNone}));
  for (const ModelOnDevice& unknown :
       {kOther, ModelOnDevice{.function = g, .revision = 1, .device = kHere},
        ModelOnDevice{.function = kName, .revision = 1, .variant = "int8", .device = kHere},
        ModelOnDevice{.function = kName, .revision = 1, .device = {"cpu/250m"}}}) {
    EXPECT_FALSE(t.predict(unknown, {}));
    EXPECT_EQ(t.throughput(unknown, {}), 0);
    EXPECT_THAT(t.candidates(unknown).batches, IsEmpty());
    EXPECT_THAT(t.candidates(unknown).sms, IsEmpty());
    EXPECT_EQ(t.memory(unknown), std::nullopt);
  }
}

TEST(ProfileTable, ATypeOfDeviceHasItsOwnPoints) {
  ProfileTable t = table({point(1, 1000, 1000, Millis(10))});
  ModelOnDevice slower = kF;
  slower.device = {"cpu/250m"};
  t.learn({slower, Bytes{80} << 20, {point(1, 1000, 1000, Millis(20))}});
  EXPECT_DOUBLE_EQ(ms(t, 1, 1000, 1000), 10);
  EXPECT_EQ(t.predict(slower, {})->median, Millis(20));
  EXPECT_EQ(t.memory(slower), Bytes{80} << 20);
}

TEST(ProfileTable, LearnsPointByPointAndForgetsAFunctionAtOnce) {
  ProfileTable t = table({point(1, 1000, 1000, Millis(10)), point(1, 1000, 500, Millis(30))});
  t.learn({.of = kF, .points = {point(1, 1000, 1000, Millis(12))}});
  EXPECT_DOUBLE_EQ(ms(t, 1, 1000, 1000), 12);
  EXPECT_DOUBLE_EQ(ms(t, 1, 1000, 500), 30);
  EXPECT_EQ(t.memory(kF), Bytes{64} << 20) << "that was not measured again";
  t.learn({.of = kOther, .points = {point(1, 1000, 1000, Millis(1))}});
  t.forget(kName);
  EXPECT_FALSE(t.predict(kF, {}));
  EXPECT_FALSE(t.predict(kOther, {}));
}

TEST(ProfileTable, APredictionSaysWhatItStandsOn) {
  const ProfileTable t = table({point(1, 500, 1000, Millis(20)), point(1, 1000, 1000, Millis(12)),
                                point(1, 1000, 400, Millis(30)), point(4, 1000, 1000, Millis(30))});
  const auto source = [&](int batch, int sm, int quota) {
    return predicted(t, batch, sm, quota).source;
  };
  EXPECT_EQ(source(1, 1000, 400), PredictionSource::kMeasured);
  EXPECT_EQ(source(1, 1000, 600), PredictionSource::kInterpolated);
  EXPECT_EQ(source(1, 700, 1000), PredictionSource::kInterpolated);
  EXPECT_EQ(source(2, 1000, 1000), PredictionSource::kInterpolated);
  EXPECT_EQ(source(1, 1000, 300), PredictionSource::kExtrapolated);
  EXPECT_EQ(source(1, 400, 1000), PredictionSource::kExtrapolated);
  EXPECT_EQ(source(8, 1000, 1000), PredictionSource::kExtrapolated);
  EXPECT_EQ(source(2, 1000, 600), PredictionSource::kExtrapolated) << "batch 4 has no such quota";
  EXPECT_LT(predicted(t, 1, 1000, 400).uncertainty, predicted(t, 1, 1000, 600).uncertainty);
  EXPECT_LT(predicted(t, 1, 1000, 600).uncertainty, predicted(t, 1, 1000, 300).uncertainty);
}

TEST(ProfileTable, AnEstimateHoldsUntilTheFirstMeasurement) {
  ProfileTable t;
  const auto estimate = [](Nanos latency) {
    return Measurement{
        kF, 0, {point(1, 1000, 1000, latency, 100), point(4, 1000, 1000, 2 * latency)}, 0.5};
  };
  t.learn(estimate(Millis(10)));
  const Prediction p = predicted(t, 1, 1000, 1000);
  EXPECT_EQ(p.median, Millis(10));
  EXPECT_EQ(p.source, PredictionSource::kLearned);
  EXPECT_EQ(p.uncertainty, 0.5);
  EXPECT_EQ(cautious(p), Millis(15));
  EXPECT_EQ(p.p95, Millis(15));
  EXPECT_DOUBLE_EQ(t.throughput(kF, {1, kWhole, kWhole}), 100 / 1.5);
  EXPECT_THAT(t.candidates(kF).batches, ElementsAre(1, 4));

  t.learn({kF, 0, {point(1, 1000, 1000, Millis(12))}});
  EXPECT_EQ(predicted(t, 1, 1000, 1000).source, PredictionSource::kMeasured);
  EXPECT_EQ(cautious(predicted(t, 1, 1000, 1000)), Millis(12));
  EXPECT_THAT(t.candidates(kF).batches, ElementsAre(1)) << "nothing of the estimate stays";
  t.learn(estimate(Millis(99)));
  EXPECT_EQ(ms(t, 1, 1000, 1000), 12) << "no estimate replaces a measurement";
}

TEST(ProfileTable, TheTailIsMeasuredTooAndNeverBelowTheMedian) {
  const MeasuredPoint wide{{1, kWhole, kWhole}, Millis(10), Millis(15)};
  const MeasuredPoint narrow{{1, kWhole, {500}}, Millis(20)};  // its tail was not measured
  const ProfileTable t = table({wide, narrow});
  EXPECT_EQ(predicted(t, 1, 1000, 1000).p95, Millis(15));
  EXPECT_EQ(predicted(t, 1, 1000, 500).p95, Millis(20));
  EXPECT_GE(predicted(t, 1, 1000, 700).p95, predicted(t, 1, 1000, 700).median);
}

TEST(ProfileTable, AQuotaNeverMeasuredCostsItsInverseAndTheWaitForTheTurn) {
  const ProfileTable t = table({point(1, 1000, 1000, Millis(10))});
  EXPECT_DOUBLE_EQ(ms(t, 1, 1000, 500), 10 / 0.5 + 0.5 * 20);
  EXPECT_NEAR(ms(t, 1, 1000, 100), 10 / 0.1 + 0.9 * 20, 1e-6);
  ModelOnDevice quick = kF;  // on a device whose arbiter has another window
  quick.window = Millis(5);
  EXPECT_DOUBLE_EQ(millis(t.predict(quick, {1, kWhole, {500}})->median), 10 / 0.5 + 0.5 * 5);
}

TEST(ProfileTable, UnderAFullQueueNoBatchWaitsForTheTurn) {
  const ProfileTable t = table({point(1, 1000, 1000, Millis(10))});
  EXPECT_NEAR(t.throughput(kF, {1, kWhole, {200}}), 20, 1e-6);
}

TEST(ProfileTable, MeasuredThroughputHoldsOverBatchByLatency) {
  const ProfileTable t = table({point(4, 1000, 1000, Millis(10), 500)});
  EXPECT_NEAR(t.throughput(kF, {4, kWhole, kWhole}), 500, 1e-3);
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
    std::vector<MeasuredPoint> points;
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
      ASSERT_LE(t.predict(kF, more)->median, t.predict(kF, less)->median + Nanos(1));
      const Configuration same_batch{less.batch, more.sm, more.quota};
      ASSERT_GE(t.throughput(kF, same_batch) * (1 + 1e-6), t.throughput(kF, less));
    }
  }
}

}  // namespace
}  // namespace sluice::predict
