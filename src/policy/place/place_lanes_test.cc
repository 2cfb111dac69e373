#include "policy/place/place_lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace sluice::policy {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

// One device of that quantum. A rectangle is written sm × quota at (sm, time).
class LanesTest : public testing::Test {
 protected:
  static Device device(int quantum = 250) {
    Device d;
    d.id = "d";
    d.memory = 100;
    d.sm_quantum = {quantum};
    return d;
  }
  void put(const std::string& id, int sm, int quota, int sm_at, int time_at, bool movable = true) {
    lanes_.add({id, {sm}, {quota}, {{sm_at}, {time_at}}, 10, movable});
  }
  int time_of(const std::string& id) const { return lanes_.room(id).position.time_begin.permille; }
  Device device_ = device();
  Lanes lanes_{device_};
};

// A worker lies across all columns.
TEST_F(LanesTest, ATrainingWorkerLeavesNewLanesTheRestOfTheTime) {
  FunctionView job;
  job.spec.kind = TrainingSpec{};
  put("w", 1000, 50, 0, 950, false);
  EXPECT_THAT(lanes_.openings({250}), IsEmpty()) << "an instance of inference is a lane";
  Lanes lanes(device_);
  Room worker{"w", kWhole, {50}, {kNone, {950}}};
  worker.owner = &job;
  lanes.add(worker);
  const auto open = lanes.openings({250});
  ASSERT_THAT(open, SizeIs(1));
  EXPECT_TRUE(open[0].new_lane);
  EXPECT_EQ(open[0].quota, Share{950});
  lanes.place({.id = "a", .quota = {900}}, open[0]);
  EXPECT_EQ(lanes.room("a").position, Position{});
  EXPECT_EQ(lanes.max_quota("a"), Share{950});
}

TEST_F(LanesTest, AnEmptyDeviceIsOneOpening) {
  const auto open = lanes_.openings({500});
  ASSERT_THAT(open, SizeIs(1));
  EXPECT_TRUE(open[0].new_lane);
  EXPECT_EQ(open[0].quota, kWhole);
  EXPECT_FALSE(lanes_.used());
}

TEST_F(LanesTest, SharesAreRoundedUpToTheQuantumAtMostTheWhole) {
  EXPECT_EQ(lanes_.width({1}), Share{250});
  EXPECT_EQ(lanes_.width({251}), Share{500});
  EXPECT_EQ(Lanes(device(300)).width({950}), kWhole);
}

TEST_F(LanesTest, AnInstanceJoinsALaneOfItsWidthOrOpensANewOne) {
  put("a", 500, 300, 0, 0);
  const auto open = lanes_.openings({500});
  ASSERT_THAT(open, SizeIs(2));
  EXPECT_EQ(open[0].quota, Share{700});
  EXPECT_FALSE(open[0].new_lane);
  EXPECT_EQ(open[1].sm_begin, Share{500});
  const auto narrow = lanes_.openings({250});
  ASSERT_THAT(narrow, SizeIs(1));
  EXPECT_EQ(narrow[0].sm_begin, Share{500});
  EXPECT_THAT(lanes_.openings({750}), IsEmpty());
}

TEST_F(LanesTest, OccupancyAndMemoryAreThoseOfTheRooms) {
  put("a", 500, 300, 0, 0);
  put("b", 250, 1000, 500, 0);
  EXPECT_EQ(lanes_.occupancy(), 500 * 300 + 250 * 1000);
  EXPECT_EQ(lanes_.free_memory(), 80);
}

TEST_F(LanesTest, TheSecondInALaneGrowsTowardsTheFirst) {
  put("a", 500, 300, 0, 0);
  lanes_.place({.id = "b", .quota = {200}, .memory = 10, .movable = true},
               lanes_.openings({500})[0]);
  EXPECT_EQ(time_of("b"), 800);
  lanes_.resize("b", {700});
  EXPECT_EQ(time_of("b"), 300);
  EXPECT_EQ(time_of("a"), 0);
}

TEST_F(LanesTest, NeighboursAreShiftedOnlyAsFarAsNeeded) {
  put("a", 500, 200, 0, 100);
  put("b", 500, 200, 0, 400);
  put("c", 500, 200, 0, 700);
  EXPECT_EQ(lanes_.max_quota("b"), Share{600});
  lanes_.resize("b", {400});
  EXPECT_EQ(time_of("a"), 100);  // the gaps beside b were enough
  EXPECT_EQ(time_of("c"), 700);
  lanes_.resize("b", {600});
  EXPECT_EQ(time_of("a"), 0);
  EXPECT_EQ(time_of("b"), 200);
  EXPECT_EQ(time_of("c"), 800);
}

TEST_F(LanesTest, RoomsOfOthersAreWalls) {
  put("mine", 500, 200, 0, 100);
  put("wall", 500, 200, 0, 500, false);
  EXPECT_EQ(lanes_.max_quota("mine"), Share{500});
  const auto open = lanes_.openings({500});
  ASSERT_THAT(open, SizeIs(3));  // before the pinned one, behind it, a new lane
  EXPECT_EQ(open[0].quota, Share{300});
  EXPECT_EQ(open[1].quota, Share{300});
}

TEST_F(LanesTest, ARectangleAcrossTheLaneIsAWallToo) {
  put("mine", 500, 200, 0, 0);
  put("wide", 1000, 300, 0, 600, false);
  EXPECT_EQ(lanes_.max_quota("mine"), Share{600});
  EXPECT_THAT(lanes_.openings({250}), IsEmpty());  // no column is free all the time
}

TEST_F(LanesTest, APinnedRoomIsAWall) {
  put("a", 500, 200, 0, 0);
  put("b", 500, 200, 0, 500);
  lanes_.pin("b");
  EXPECT_EQ(lanes_.max_quota("a"), Share{500});
}

// After any placements, growth and shrinking, the results of openings() and max_quota() can be
// used, nothing overlaps, and pinned rectangles stay where they are.
TEST(Lanes, KeepTheirPromisesWhateverHappens) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Device d;
    d.memory = 1 << 30;
    d.sm_quantum = {static_cast<int>(50 * (1 + random.below(5)))};
    Lanes lanes(d);
    std::vector<Room> walls;
    for (int step = 0; step < 200; ++step) {
      if (random.chance(0.4) || lanes.rooms().empty()) {
        const auto open = lanes.openings(lanes.width({static_cast<int>(1 + random.below(1000))}));
        if (open.empty()) continue;
        const Opening& o = open[random.below(open.size())];
        const Share quota{random.chance(0.2)
                              ? o.quota.permille
                              : static_cast<int>(1 + random.below(o.quota.permille))};
        const std::string id = std::to_string(step);
        lanes.place({.id = id, .quota = quota, .memory = 1, .movable = random.chance(0.8)}, o);
        ASSERT_EQ(lanes.room(id).quota, quota);
        if (!lanes.room(id).movable) walls.push_back(lanes.room(id));
      } else {
        const InstanceId id = lanes.rooms()[random.below(lanes.rooms().size())].id;
        if (!lanes.room(id).movable) continue;
        const int most = lanes.max_quota(id).permille;
        ASSERT_GE(most, lanes.room(id).quota.permille);
        lanes.resize(id, {random.chance(0.3) ? most : static_cast<int>(1 + random.below(most))});
      }
      for (const Room& a : lanes.rooms()) {
        ASSERT_GE(a.position.time_begin, kNone);
        ASSERT_LE(a.position.time_begin + a.quota, kWhole);
        ASSERT_LE(a.position.sm_begin + a.sm, kWhole);
        for (const Room& b : lanes.rooms())
          ASSERT_FALSE(a.id < b.id && overlap(a, b)) << a.id << " " << b.id;
      }
      for (const Room& w : walls) ASSERT_EQ(lanes.room(w.id), w);
    }
  }
}

}  // namespace
}  // namespace sluice::policy
