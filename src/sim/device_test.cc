// Batches of clients on a device in virtual time, and when they end: cases of both models of a
// device, and of each.
#include "sim/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/exact_device.h"
#include "sim/sharing.h"

namespace sluice::sim {
namespace {

using policy::ClientId;
using policy::ShareClient;
using Ends = std::map<ClientId, int64_t>;  // in milliseconds

constexpr Time kStart = Time(Seconds(3600));

ShareClient client(ClientId id, int sm, int sm_begin, int request, int limit, int time_begin = 0) {
  return {.id = id,
          .sm = {sm},
          .quota = {{request}, {limit}},
          .position = {{sm_begin}, {time_begin}},
          .has_slo = true};
}

// A device whose clients begin batches, and the times at which they end.
class Bed {
 public:
  explicit Bed(Stepping stepping, std::string_view arbiter = "planned", const Physics& physics = {})
      : device(make_device(stepping, physics)) {
    EXPECT_TRUE(device->run(arbiter).ok());
  }
  void add(const ShareClient& c) { EXPECT_TRUE(device->admit(c, now).ok()); }
  void begin(ClientId id, Nanos work) { device->begin(id, work, 1, now + Seconds(1), now); }
  // Lets time pass until all batches have ended, and returns the ends.
  Ends run() {
    Ends ends;
    const auto* exact = dynamic_cast<const ExactDevice*>(device.get());
    for (Time next = device->next(); next <= kStart + Seconds(10); next = device->next()) {
      now = std::max(now, next);
      for (const ClientId id : device->step(now)) ends[id] = (now - kStart) / Millis(1);
      if (exact != nullptr) {
        EXPECT_LE(exact->held_sm(now), most_sm);
      }
    }
    return ends;
  }

  std::unique_ptr<SimulatedDevice> device;
  Time now = kStart;
  int most_sm = 1000;
};

class AnyDevice : public testing::TestWithParam<Stepping> {};
INSTANTIATE_TEST_SUITE_P(Models, AnyDevice, testing::Values(Stepping::kExact, Stepping::kFluid),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST_P(AnyDevice, ABatchAloneTakesItsWork) {
  Bed bed(GetParam());
  bed.add(client(1, 1000, 0, 1000, 1000));
  bed.begin(1, Millis(30));
  EXPECT_EQ(bed.run(), (Ends{{1, 30}}));
  EXPECT_EQ(bed.device->used(1, bed.now), Millis(30));
}

TEST_P(AnyDevice, LanesBesideEachOtherRunAtTheSameTime) {
  Bed bed(GetParam());
  bed.add(client(1, 500, 0, 1000, 1000));
  bed.add(client(2, 500, 500, 1000, 1000));
  bed.begin(1, Millis(40));
  bed.begin(2, Millis(40));
  EXPECT_EQ(bed.run(), (Ends{{1, 40}, {2, 40}}));
}

TEST_P(AnyDevice, ContentionSlowsLanesBesideEachOther) {
  Bed bed(GetParam(), "planned", {.contention = {200}});
  bed.add(client(1, 500, 0, 1000, 1000));
  bed.add(client(2, 500, 500, 1000, 1000));
  bed.begin(1, Millis(40));
  bed.begin(2, Millis(80));
  // Half the device's sm run beside each: a tenth longer. The second is alone after 44 ms.
  EXPECT_EQ(bed.run(), (Ends{{1, 44}, {2, 84}}));
}

TEST_P(AnyDevice, WhereTheArbiterOverbooksTheSmAreShared) {
  Bed bed(GetParam(), "share_fixed_limit");
  bed.most_sm = 1500;
  bed.add(client(1, 750, 0, 600, 1000));
  bed.add(client(2, 750, 0, 600, 1000));
  bed.begin(1, Millis(40));
  bed.begin(2, Millis(40));
  EXPECT_EQ(bed.run(), (Ends{{1, 60}, {2, 60}}));
}

TEST(ExactDevice, AQuotaOfHalfTheTimeTakesAboutTwiceAsLong) {
  Bed bed(Stepping::kExact);
  bed.add(client(1, 1000, 0, 500, 500));
  bed.begin(1, Millis(100));
  const auto ends = bed.run();
  EXPECT_GE(ends.at(1), 180);
  EXPECT_LE(ends.at(1), 200);
}

TEST(ExactDevice, ClientsOfOneLaneTakeTurns) {
  Bed bed(Stepping::kExact);
  bed.add(client(1, 1000, 0, 500, 1000));
  bed.add(client(2, 1000, 0, 500, 1000, 500));
  bed.begin(1, Millis(50));
  bed.begin(2, Millis(50));
  const auto ends = bed.run();
  EXPECT_LE(std::max(ends.at(1), ends.at(2)), 102);
  EXPECT_GE(std::min(ends.at(1), ends.at(2)), 80) << "each has half of every window";
  EXPECT_EQ(bed.device->used(1, bed.now) + bed.device->used(2, bed.now), Millis(100));
}

// Waiting for the device is not use: a window's limit is not used up by it.
TEST_P(AnyDevice, WhereTheArbiterOverbooksTheSmLimitsAreOfUse) {
  for (const std::string_view arbiter : {"share_fixed_limit", "introspective"}) {
    Bed bed(GetParam(), arbiter);
    bed.most_sm = 2000;
    bed.add(client(1, 1000, 0, 500, 500));
    bed.add(client(2, 1000, 0, 500, 500));
    bed.begin(1, Millis(100));
    bed.begin(2, Millis(100));
    const auto ends = bed.run();
    EXPECT_NEAR(ends.at(1), 200, 2) << arbiter;
    EXPECT_NEAR(ends.at(2), 200, 2) << arbiter;
  }
}

TEST(FluidDevice, EveryArbiterHasARule) {
  for (const std::string& name : policy::arbiter_names(DeviceKind::kCpu))
    EXPECT_NE(find_sharing(name), nullptr) << name;
}

TEST(FluidDevice, ABatchAloneMayBorrowTheRest) {
  Bed bed(Stepping::kFluid);
  bed.add(client(1, 1000, 0, 300, 1000));
  bed.begin(1, Millis(30));
  EXPECT_EQ(bed.run(), (Ends{{1, 30}}));
}

TEST(FluidDevice, ALimitIsTheRateOnceAWindowsPartOfItIsUsed) {
  Bed bed(Stepping::kFluid);
  bed.add(client(1, 1000, 0, 500, 500));
  bed.now += Seconds(1);
  bed.begin(1, Millis(10));  // half of a window
  EXPECT_EQ(bed.run(), (Ends{{1, 1010}}));
  bed.now = kStart + Seconds(2);
  bed.begin(1, Millis(110));
  EXPECT_EQ(bed.run(), (Ends{{1, 2210}}));
}

TEST(FluidDevice, ClientsOfOneLaneHaveTheirRequestsAndShareTheRest) {
  Bed bed(Stepping::kFluid);
  bed.add(client(1, 1000, 0, 600, 1000));
  bed.add(client(2, 1000, 0, 200, 1000, 600));
  bed.begin(1, Millis(600));
  bed.begin(2, Millis(600));
  // At 60 % and 40 %: the second borrows all of the rest, until it has used as much. It is alone
  // after a second.
  EXPECT_EQ(bed.run(), (Ends{{1, 1000}, {2, 1200}}));
}

TEST(FluidDevice, TheWindowArbiterLendsNothingToOtherLanes) {
  const auto ends = [](std::string_view arbiter) {
    Bed bed(Stepping::kFluid, arbiter);
    bed.add(client(1, 500, 0, 500, 1000));
    bed.add(client(2, 500, 0, 500, 1000, 500));
    bed.begin(1, Millis(50));
    bed.begin(2, Millis(50));
    return bed.run();
  };
  EXPECT_EQ(ends("window"), (Ends{{1, 100}, {2, 100}}));
  EXPECT_EQ(ends("planned"), (Ends{{1, 50}, {2, 50}})) << "the other half is idle";
}

TEST(FluidDevice, TokensKeepNoRequestAndFollowTheLimits) {
  Bed bed(Stepping::kFluid, "tgs");
  bed.add(client(1, 1000, 0, 500, 1000));
  bed.add(client(2, 1000, 0, 100, 1000, 500));
  bed.begin(1, Millis(50));
  bed.begin(2, Millis(50));
  EXPECT_EQ(bed.run(), (Ends{{1, 100}, {2, 100}}));
}

TEST(FluidDevice, ADepartureAndAResizeChangeTheRates) {
  Bed bed(Stepping::kFluid);
  bed.add(client(1, 1000, 0, 500, 500));
  bed.add(client(2, 1000, 0, 500, 500, 500));
  bed.begin(1, Millis(100));
  bed.begin(2, Millis(100));
  bed.now += Millis(100);
  bed.device->remove(2, bed.now);
  bed.add(client(1, 1000, 0, 1000, 1000));
  EXPECT_EQ(bed.run(), (Ends{{1, 150}}));
}

}  // namespace
}  // namespace sluice::sim
