#include "control/snapshots.h"

#include <gtest/gtest.h>

namespace sluice::control {
namespace {

const FunctionName kF{.name = "f"};

class SnapshotsTest : public testing::Test {
 protected:
  SnapshotsTest() {
    FunctionState& f = functions[kF];
    f.stored = {kF, 1, 1, {{kF, 1, {.name = kF}, 0}}, true};
    f.bundle = policy::find_bundle("fixed");
  }
  Snapshot snapshot() {
    return snapshot_of(functions, {}, Rollouts({}), Starts({}), Stops(Seconds(10)), {}, Time{});
  }
  Functions functions;
};

TEST_F(SnapshotsTest, AFunctionThatNothingIsKnownOfHasAnEmptyHistory) {
  const Snapshot s = snapshot();
  EXPECT_TRUE(s.functions[0].arrivals->per_minute(60).empty());
  EXPECT_EQ(s.functions[0].arrival_gap, Nanos(0));
  EXPECT_EQ(s.functions[0].latency, LatencyQuantiles{});
  EXPECT_TRUE(FunctionView{}.arrivals->per_second(600).empty());
}

TEST_F(SnapshotsTest, GapsAreOfTheLastMinute) {
  // Gaps of 1 and 3 seconds in turns.
  functions[kF].traffic.step({.function = kF, .gaps = 10, .gap_sum = 20, .gap_squares = 50},
                             Seconds(1), false);
  EXPECT_EQ(snapshot().functions[0].arrival_gap, Seconds(2));
  EXPECT_NEAR(snapshot().functions[0].arrival_cv, 0.5, 1e-9);
  functions[kF].traffic.rest(Seconds(30));
  functions[kF].traffic.rest(Seconds(31));
  EXPECT_EQ(snapshot().functions[0].arrival_gap, Nanos(0));
  EXPECT_EQ(snapshot().functions[0].arrival_cv, 1);
}

TEST_F(SnapshotsTest, AHistoryIsSharedAndEqualSnapshotsShareIt) {
  const Snapshot before = snapshot();
  functions[kF].arrivals->add(Seconds(100), Seconds(110), 50);
  EXPECT_EQ(before.functions[0].arrivals->per_second(2), (std::vector<uint32_t>{5, 5}));
  EXPECT_EQ(before.functions, snapshot().functions);
}

}  // namespace
}  // namespace sluice::control
