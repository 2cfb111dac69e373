#include "sim/exact_device.h"

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

// A device whose clients begin a batch, and the times at which they end.
class Bed {
 public:
  explicit Bed(const Physics& physics = {}, std::string_view arbiter = "planned")
      : device(physics) {
    EXPECT_TRUE(device.run(arbiter).ok());
  }
  void add(const ShareClient& c) { EXPECT_TRUE(device.admit(c, now).ok()); }
  void begin(ClientId id, Nanos work) { device.begin(id, work, 1, now + Seconds(1), now); }
  // Lets time pass until nothing happens any more, and returns the ends in milliseconds.
  std::map<ClientId, int64_t> run(Nanos most = Seconds(10)) {
    std::map<ClientId, int64_t> ends;
    for (Time next = device.next(); next <= kStart + most; next = device.next()) {
      now = std::max(now, next);
      for (const ClientId id : device.step(now)) ends[id] = (now - kStart) / Millis(1);
      EXPECT_LE(device.held_sm(now), most_sm);
    }
    return ends;
  }

  ExactDevice device;
  Time now = kStart;
  int most_sm = 1000;
};

TEST(ExactDevice, ABatchAloneTakesItsWork) {
  Bed bed;
  bed.add(client(1, 1000, 0, 1000, 1000));
  bed.begin(1, Millis(30));
  EXPECT_EQ(bed.run(), (std::map<ClientId, int64_t>{{1, 30}}));
  EXPECT_EQ(bed.device.used(1, bed.now), Millis(30));
}

TEST(ExactDevice, AQuotaOfHalfTheTimeTakesAboutTwiceAsLong) {
  Bed bed;
  bed.add(client(1, 1000, 0, 500, 500));
  bed.begin(1, Millis(100));
  const auto ends = bed.run();
  EXPECT_GE(ends.at(1), 180);
  EXPECT_LE(ends.at(1), 200);
}

TEST(ExactDevice, LanesBesideEachOtherRunAtTheSameTime) {
  Bed bed;
  bed.add(client(1, 500, 0, 1000, 1000));
  bed.add(client(2, 500, 500, 1000, 1000));
  bed.begin(1, Millis(40));
  bed.begin(2, Millis(40));
  EXPECT_EQ(bed.run(), (std::map<ClientId, int64_t>{{1, 40}, {2, 40}}));
}

TEST(ExactDevice, ContentionSlowsLanesBesideEachOther) {
  Bed bed({.contention = {200}});
  bed.add(client(1, 500, 0, 1000, 1000));
  bed.add(client(2, 500, 500, 1000, 1000));
  bed.begin(1, Millis(40));
  bed.begin(2, Millis(80));
  // Half the device's sm run beside each: a tenth longer. The second is alone after 44 ms.
  EXPECT_EQ(bed.run(), (std::map<ClientId, int64_t>{{1, 44}, {2, 84}}));
}

TEST(ExactDevice, WhereTheArbiterOverbooksTheSmAreShared) {
  Bed bed({}, "share_fixed_limit");
  bed.most_sm = 1500;
  bed.add(client(1, 750, 0, 600, 1000));
  bed.add(client(2, 750, 0, 600, 1000));
  bed.begin(1, Millis(40));
  bed.begin(2, Millis(40));
  EXPECT_EQ(bed.run(), (std::map<ClientId, int64_t>{{1, 60}, {2, 60}}));
}

TEST(ExactDevice, ClientsOfOneLaneTakeTurns) {
  Bed bed;
  bed.add(client(1, 1000, 0, 500, 1000));
  bed.add(client(2, 1000, 0, 500, 1000, 500));
  bed.begin(1, Millis(50));
  bed.begin(2, Millis(50));
  const auto ends = bed.run();
  EXPECT_LE(std::max(ends.at(1), ends.at(2)), 102);
  EXPECT_GE(std::min(ends.at(1), ends.at(2)), 80) << "each has half of every window";
  EXPECT_EQ(bed.device.used(1, bed.now) + bed.device.used(2, bed.now), Millis(100));
}

}  // namespace
}  // namespace sluice::sim
