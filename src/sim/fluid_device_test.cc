#include "sim/fluid_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::sim {
namespace {

using policy::ClientId;
using policy::ShareClient;

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
  explicit Bed(std::string_view arbiter = "planned", const Physics& physics = {})
      : device(physics) {
    EXPECT_TRUE(device.run(arbiter).ok());
  }
  void add(const ShareClient& c) { EXPECT_TRUE(device.admit(c, now).ok()); }
  void begin(ClientId id, Nanos work) { device.begin(id, work, 1, now + Seconds(1), now); }
  // Lets time pass until nothing happens any more, and returns the ends in milliseconds.
  std::map<ClientId, int64_t> run() {
    std::map<ClientId, int64_t> ends;
    for (Time next = device.next(); next < Time::max(); next = device.next()) {
      now = std::max(now, next);
      for (const ClientId id : device.step(now)) ends[id] = (now - kStart) / Millis(1);
    }
    return ends;
  }

  FluidDevice device;
  Time now = kStart;
};

using Ends = std::map<ClientId, int64_t>;

TEST(FluidDevice, EveryArbiterHasARule) {
  for (const std::string& name : policy::arbiter_names())
    EXPECT_NE(find_sharing(name), nullptr) << name;
}

TEST(FluidDevice, ABatchAloneTakesItsWorkIfItMayBorrowTheRest) {
  Bed bed;
  bed.add(client(1, 1000, 0, 300, 1000));
  bed.begin(1, Millis(30));
  EXPECT_EQ(bed.run(), (Ends{{1, 30}}));
  EXPECT_EQ(bed.device.used(1, bed.now), Millis(30));
}

TEST(FluidDevice, ALimitIsTheRateOnceAWindowsPartOfItIsUsed) {
  Bed bed;
  bed.add(client(1, 1000, 0, 500, 500));
  bed.now += Seconds(1);
  bed.begin(1, Millis(10));  // half of a window
  EXPECT_EQ(bed.run(), (Ends{{1, 1010}}));
  bed.now = kStart + Seconds(2);
  bed.begin(1, Millis(110));
  EXPECT_EQ(bed.run(), (Ends{{1, 2210}}));
}

TEST(FluidDevice, LanesBesideEachOtherRunAtTheSameTime) {
  Bed bed;
  bed.add(client(1, 500, 0, 1000, 1000));
  bed.add(client(2, 500, 500, 1000, 1000));
  bed.begin(1, Millis(40));
  bed.begin(2, Millis(40));
  EXPECT_EQ(bed.run(), (Ends{{1, 40}, {2, 40}}));
}

TEST(FluidDevice, ContentionSlowsLanesBesideEachOther) {
  Bed bed("planned", {.contention = {200}});
  bed.add(client(1, 500, 0, 1000, 1000));
  bed.add(client(2, 500, 500, 1000, 1000));
  bed.begin(1, Millis(40));
  bed.begin(2, Millis(80));
  EXPECT_EQ(bed.run(), (Ends{{1, 44}, {2, 84}}));
}

TEST(FluidDevice, ClientsOfOneLaneHaveTheirRequestsAndShareTheRest) {
  Bed bed;
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
    Bed bed(arbiter);
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
  Bed bed("tgs");
  bed.add(client(1, 1000, 0, 500, 1000));
  bed.add(client(2, 1000, 0, 100, 1000, 500));
  bed.begin(1, Millis(50));
  bed.begin(2, Millis(50));
  EXPECT_EQ(bed.run(), (Ends{{1, 100}, {2, 100}}));
}

TEST(FluidDevice, FixedSharesRunAllAtOnceAndTheDeviceSettlesIt) {
  Bed bed("share_fixed_limit");
  bed.add(client(1, 750, 0, 600, 1000));
  bed.add(client(2, 750, 0, 600, 1000));
  bed.begin(1, Millis(40));
  bed.begin(2, Millis(40));
  EXPECT_EQ(bed.run(), (Ends{{1, 60}, {2, 60}}));
}

TEST(FluidDevice, ADepartureAndAResizeChangeTheRates) {
  Bed bed;
  bed.add(client(1, 1000, 0, 500, 500));
  bed.add(client(2, 1000, 0, 500, 500, 500));
  bed.begin(1, Millis(100));
  bed.begin(2, Millis(100));
  bed.now += Millis(100);
  bed.device.remove(2, bed.now);
  bed.add(client(1, 1000, 0, 1000, 1000));
  EXPECT_EQ(bed.run(), (Ends{{1, 150}}));
}

}  // namespace
}  // namespace sluice::sim
