#include "policy/place/place_rectangles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/random.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

Rectangle rect(int sm_begin, int sm, int time_begin, int time) {
  return {{sm_begin}, {sm}, {time_begin}, {time}};
}
const Rectangle kAll = rect(0, 1000, 0, 1000);

Device device_of(const std::string& id, int quantum = 10, Bytes memory = 1000) {
  Device d;
  d.id = id;
  d.memory = memory;
  d.sm_quantum = {quantum};
  return d;
}

TEST(CutOut, LeavesTheMaximalPieces) {
  std::vector<Rectangle> free = {kAll};
  cut_out(free, rect(0, 300, 0, 400));  // bottom-left: two
  EXPECT_THAT(free, UnorderedElementsAre(rect(300, 700, 0, 1000), rect(0, 1000, 400, 600)));
  cut_out(free, rect(300, 300, 0, 400));
  EXPECT_THAT(free, UnorderedElementsAre(rect(600, 400, 0, 1000), rect(0, 1000, 400, 600)));
  free = {kAll};
  cut_out(free, rect(200, 300, 400, 100));  // in the middle: four
  EXPECT_THAT(free, UnorderedElementsAre(rect(0, 200, 0, 1000), rect(500, 500, 0, 1000),
                                         rect(0, 1000, 0, 400), rect(0, 1000, 500, 500)));
  cut_out(free, kAll);
  EXPECT_THAT(free, IsEmpty());
}

TEST(CutOut, WhatHasNoAreaCutsNothing) {
  std::vector<Rectangle> free = {kAll};
  cut_out(free, rect(200, 300, 400, 0));
  EXPECT_THAT(free, ElementsAre(kAll));
}

// FaST-GShare, section 5.4: 4 ResNet, 2 RNN-T and 2 BERT instances fit on one GPU; time sharing
// needs four. The largest come first.
TEST(PlaceRectangles, TheEightInstancesOfThePaperFitOnOneDevice) {
  const std::vector<Device> devices = {device_of("d0"), device_of("d1")};
  Layouts layouts(devices, *find_placement("rectangles"));
  int placed = 0;
  for (const auto& [count, sm, quota] :
       {std::tuple(2, 500, 600), std::tuple(2, 240, 400), std::tuple(4, 120, 400)})
    for (int i = 0; i < count; ++i) {
      const PlaceRequest request{nullptr, {sm}, {{quota}, kWhole}, 10};
      const std::vector<Spot> spots = place_rectangles(layouts, request);
      ASSERT_THAT(spots, SizeIs(1));
      spots[0].device->place({.id = std::to_string(placed++), .quota = {quota}, .memory = 10},
                             spots[0].opening);
    }
  EXPECT_EQ(layouts[0].rooms().size(), 8u);
  EXPECT_FALSE(layouts[1].used());
}

class RectanglesTest : public testing::Test {
 protected:
  Rectangles& put(const std::string& id, const Rectangle& r, bool movable = false) {
    one_.add({id, r.sm, r.time, {r.sm_begin, r.time_begin}, 10, movable});
    return one_;
  }
  Rectangle place_of(const std::string& id) const { return rectangle_of(one_.room(id)); }

  Device device_ = device_of("d");
  Rectangles one_{device_};
};

TEST_F(RectanglesTest, TheLeastAreaLeftIsTakenAtItsFirstCorner) {
  put("a", rect(0, 500, 0, 700));
  const auto open = one_.openings({500});
  ASSERT_THAT(open, SizeIs(2));
  EXPECT_EQ(open[0].time_begin, Share{700});  // 1000 × 300
  EXPECT_EQ(open[1].sm_begin, Share{500});    // 500 × 1000
  EXPECT_THAT(one_.openings({510}), SizeIs(1));
}

TEST_F(RectanglesTest, AnInstanceGrowsUpToItsNeighbours) {
  put("a", rect(0, 500, 0, 200)).add({"b", {300}, {100}, {{100}, {600}}, 10});
  put("c", rect(500, 500, 100, 900));
  EXPECT_EQ(one_.max_quota("a"), Share{600});
  EXPECT_EQ(one_.max_quota("b"), Share{800});
  one_.resize("b", {700});
  EXPECT_EQ(place_of("b"), rect(100, 300, 300, 700));
  EXPECT_THAT(one_.free(), testing::Not(testing::Contains(kAll)));
  one_.resize("b", {1});
  EXPECT_EQ(one_.max_quota("a"), Share{300});
}

TEST_F(RectanglesTest, AReleasedRectangleIsOfferedAsItIs) {
  put("a", rect(0, 300, 0, 400));
  one_.offer_again(rect(300, 200, 0, 400));
  one_.offer_again(rect(300, 200, 0, 400));
  one_.offer_again(rect(200, 200, 0, 400));   // not free
  one_.offer_again(rect(300, 700, 0, 1000));  // maximal anyway
  EXPECT_THAT(one_.released(), ElementsAre(rect(300, 200, 0, 400)));
  const auto open = one_.openings({200});
  EXPECT_EQ(open[0].quota, Share{400});
  one_.place({.id = "b", .quota = {300}, .memory = 10}, open[0]);
  EXPECT_EQ(place_of("b"), rect(300, 200, 0, 300));
  EXPECT_THAT(one_.released(), IsEmpty());
}

// A staircase of narrow instances, each above a gap.
TEST_F(RectanglesTest, PastTheThresholdInstancesMoveInTimeAlone) {
  for (int i = 0; i < 10; ++i)
    put(std::to_string(i), rect(100 * i, 100, 100 + 37 * ((i * 7) % 10), 200), true);
  one_.add({"wall", {100}, {50}, {{0}, {20}}, 10});
  ASSERT_GT(one_.free().size(), Rectangles::kMostFree);
  one_.tidy();
  EXPECT_EQ(place_of("wall"), rect(0, 100, 20, 50));
  EXPECT_EQ(place_of("0"), rect(0, 100, 70, 200));
  for (int i = 1; i < 10; ++i) EXPECT_EQ(place_of(std::to_string(i)), rect(100 * i, 100, 0, 200));
  EXPECT_LE(one_.free().size(), Rectangles::kMostFree);
}

TEST_F(RectanglesTest, PinnedInstancesNeverMove) {
  for (int i = 0; i < 10; ++i)
    put(std::to_string(i), rect(100 * i, 100, 100 + 37 * ((i * 7) % 10), 200));
  const std::vector<Room> before = one_.rooms();
  ASSERT_GT(one_.free().size(), Rectangles::kMostFree);
  one_.offer_again(rect(0, 100, 0, 50));
  one_.tidy();
  EXPECT_EQ(one_.rooms(), before);
  EXPECT_THAT(one_.released(), IsEmpty()) << "forgotten";
}

TEST(PlaceRectangles, ARequestMayNameATypeOfDevice) {
  std::vector<Device> devices = {device_of("d0"), device_of("d1")};
  devices[0].millicores = 1000, devices[1].millicores = 2000;
  Layouts layouts(devices, *find_placement("rectangles"));
  const PlaceRequest request{nullptr, {100}, {{100}, {100}}, 1, 1, &devices[1]};
  EXPECT_EQ(place_rectangles(layouts, request).at(0).device->device().id, "d1");
}

// The areas of the maximal rectangles by definition: none can grow, and every free point is in one.
void expect_maximal(const Rectangles& layout) {
  const auto& free = layout.free();
  for (const Rectangle& r : free) {
    for (const Room& room : layout.rooms()) EXPECT_FALSE(overlap(r, rectangle_of(room)));
    for (const Rectangle& other : free) {
      const bool inside = other.sm_begin <= r.sm_begin &&
                          r.sm_begin + r.sm <= other.sm_begin + other.sm &&
                          other.time_begin <= r.time_begin &&
                          r.time_begin + r.time <= other.time_begin + other.time;
      EXPECT_TRUE(&other == &r || !inside);
    }
  }
  for (int sm = 0; sm < 1000; sm += 50)
    for (int time = 0; time < 1000; time += 50) {
      const Rectangle point = rect(sm, 50, time, 50);
      const auto covers = [&](const Rectangle& r) { return overlap(r, point); };
      const auto holds = [&](const Room& room) { return overlap(rectangle_of(room), point); };
      const auto& rooms = layout.rooms();
      EXPECT_NE(std::any_of(free.begin(), free.end(), covers),
                std::any_of(rooms.begin(), rooms.end(), holds));
    }
}

// Some devices under random placement, release and resizing, laid out anew at each step from what
// runs, as decisions are. All on a grid of 50.
class RandomPacking {
 public:
  explicit RandomPacking(uint64_t seed) : random_(seed) {
    for (int i = 0; i < 4; ++i) devices_.push_back(device_of("d" + std::to_string(i), 50, 120));
  }
  void step() {
    Layouts layouts(devices_, *find_placement("rectangles"));
    std::map<InstanceId, Room> pinned;
    for (auto& [id, held] : running_) {
      held.second.movable = random_.chance(0.5);
      layouts[held.first].add(held.second);
      if (!held.second.movable) pinned[id] = held.second;
    }
    for (const auto& [device, r] : released_) at(layouts, device).offer_again(r);
    released_.clear();
    for (int n = static_cast<int>(random_.below(4)); n > 0; --n) place(layouts);
    adopt(layouts);
    for (const auto& [id, before] : pinned) EXPECT_EQ(running_.at(id).second, before);
    for (size_t d = 0; d < devices_.size(); ++d) expect_sound(at(layouts, d));
    release();
  }
  size_t placed() const { return static_cast<size_t>(next_); }

 private:
  static Rectangles& at(Layouts& layouts, size_t device) {
    return static_cast<Rectangles&>(layouts[device]);
  }
  Share grid(uint64_t most) { return {static_cast<int>(50 * (1 + random_.below(most)))}; }

  void place(Layouts& layouts) {
    const PlaceRequest request{
        nullptr, grid(12), {grid(12), kWhole}, static_cast<Bytes>(random_.below(30))};
    const std::vector<Spot> spots = place_rectangles(layouts, request);
    EXPECT_EQ(spots.empty(), !fits(layouts, request)) << "leaked, or not free";
    if (spots.empty()) return;
    spots[0].device->place({.id = std::to_string(next_++),
                            .quota = request.quota.request,
                            .memory = request.memory,
                            .movable = true},
                           spots[0].opening);
  }
  // By trying every place of the grid on every device with the memory.
  static bool fits(Layouts& layouts, const PlaceRequest& request) {
    for (size_t d = 0; d < layouts.size(); ++d) {
      if (layouts[d].free_memory() < request.memory) continue;
      for (Share sm; sm + request.sm <= kWhole; sm = sm + Share{50})
        for (Share time; time + request.quota.request <= kWhole; time = time + Share{50}) {
          const Rectangle wanted{sm, request.sm, time, request.quota.request};
          const auto& rooms = layouts[d].rooms();
          if (std::none_of(rooms.begin(), rooms.end(),
                           [&](const Room& r) { return overlap(rectangle_of(r), wanted); }))
            return true;
        }
    }
    return false;
  }
  void adopt(Layouts& layouts) {
    for (size_t d = 0; d < devices_.size(); ++d)
      for (const Room& room : layouts[d].rooms()) {
        const auto before = running_.find(room.id);
        if (before != running_.end()) {
          EXPECT_EQ(before->second.second.position.sm_begin, room.position.sm_begin);
          EXPECT_LE(room.position.time_begin, before->second.second.position.time_begin);
        }
        running_[room.id] = {d, room};
      }
  }
  void expect_sound(const Rectangles& layout) {
    expect_maximal(layout);
    EXPECT_GE(layout.free_memory(), 0);
    for (const Room& a : layout.rooms()) {
      EXPECT_LE(a.position.sm_begin + a.sm, kWhole);
      EXPECT_LE(a.position.time_begin + a.quota, kWhole);
      for (const Room& b : layout.rooms()) EXPECT_FALSE(a.id < b.id && overlap(a, b));
    }
  }
  void release() {
    for (auto i = running_.begin(); i != running_.end();) {
      const bool leaves = random_.chance(0.1);
      if (leaves) released_.emplace_back(i->second.first, rectangle_of(i->second.second));
      i = leaves ? running_.erase(i) : std::next(i);
    }
  }

  Random random_;
  std::vector<Device> devices_;
  std::map<InstanceId, std::pair<size_t, Room>> running_;
  std::vector<std::pair<size_t, Rectangle>> released_;
  int next_ = 0;
};

// No free place is missed, nothing overlaps, memory suffices, pinned instances stay, and others
// move to earlier times alone.
TEST(PlaceRectangles, KeepTheirPromisesUnderRandomPlacementAndRelease) {
  size_t placed = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    RandomPacking packing(seed);
    for (int step = 0; step < 60; ++step) {
      packing.step();
      if (testing::Test::HasFailure()) return;
    }
    placed += packing.placed();
  }
  EXPECT_GT(placed, 500u);
}

}  // namespace
}  // namespace sluice::policy
