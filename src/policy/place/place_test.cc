#include "policy/place/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/random.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Devices d0, d1, … with a memory of 100 and a quantum of 25 %; instances use 10 each.
class Place : public testing::Test {
 public:
  Place& devices(int count) {
    for (int i = 0; i < count; ++i) {
      Device d;
      d.id = "d" + std::to_string(i);
      d.memory = 100;
      d.sm_quantum = {250};
      devices_.push_back(d);
    }
    return *this;
  }
  Layouts laid_out(std::string_view placement) {
    Layouts layouts(devices_, *find_placement(placement));
    for (const auto& [device, room] : rooms_) layouts[device].add(room);
    return layouts;
  }
  // Adds a rectangle of sm × quota, in columns from `sm_at`.
  Place& room(size_t device, int sm, int quota, int sm_at = 0, Bytes memory = 10) {
    const std::string id = "r" + std::to_string(rooms_.size());
    rooms_.push_back({device, {id, {sm}, {quota}, {{sm_at}, kNone}, memory}});
    return *this;
  }
  // "d0 at 250", each part's device and first column.
  std::vector<std::string> spots(std::string_view placement, int sm, int quota, Bytes memory = 10,
                                 int parts = 1) {
    Layouts layouts = laid_out(placement);
    const PlaceRequest request{nullptr, {sm}, {{quota}, {quota}}, memory, parts};
    std::vector<std::string> found;
    for (const Spot& s : layouts.placement().place(layouts, request))
      found.push_back(s.device->device().id + " at " + std::to_string(s.opening.sm_begin.permille));
    return found;
  }

  std::vector<Device> devices_;
  std::vector<std::pair<size_t, Room>> rooms_;
};

TEST_F(Place, LanesFillTheLeastOccupiedOfTheUsedDevices) {
  devices(3).room(0, 500, 500).room(1, 250, 500);
  EXPECT_THAT(spots("lanes", 500, 500), ElementsAre("d1 at 250"));
  EXPECT_THAT(spots("lanes", 500, 1000), ElementsAre("d1 at 250"));
  EXPECT_THAT(spots("lanes", 1000, 500), ElementsAre("d2 at 0"));
}

TEST_F(Place, WholeTakesAnEmptyDeviceOnly) {
  devices(2).room(0, 250, 100);
  EXPECT_THAT(spots("whole", 250, 100), ElementsAre("d1 at 0"));
  room(1, 250, 100);
  EXPECT_THAT(spots("whole", 250, 100), IsEmpty());
}

TEST_F(Place, BestFitLeavesTheLeast) {
  // Of d0's only lane 30 % are free, of d1's 40 %; d2 has half its columns free.
  devices(4).room(0, 1000, 700).room(1, 1000, 600).room(2, 500, 1000);
  EXPECT_THAT(spots("best-fit", 1000, 300), ElementsAre("d0 at 0"));
  EXPECT_THAT(spots("best-fit", 1000, 350), ElementsAre("d1 at 0"));
  EXPECT_THAT(spots("best-fit", 500, 1000), ElementsAre("d2 at 500"));
  EXPECT_THAT(spots("best-fit", 1000, 1000), ElementsAre("d3 at 0"));
}

TEST_F(Place, EfficiencyTakesTheFullestDeviceThatHasTheShare) {
  devices(4).room(1, 500, 1000).room(2, 750, 1000).room(3, 250, 1000);
  EXPECT_THAT(spots("efficiency", 250, 1000), ElementsAre("d2 at 750"));
  EXPECT_THAT(spots("efficiency", 500, 1000), ElementsAre("d1 at 500"));
  EXPECT_THAT(spots("efficiency", 750, 1000), ElementsAre("d3 at 250"));
  EXPECT_THAT(spots("efficiency", 1000, 1000), ElementsAre("d0 at 0"));
}

TEST_F(Place, OfEqualFitsTheOneWithLeastMemoryLeftIsTaken) {
  devices(2).room(0, 1000, 500, 0, 10).room(1, 1000, 500, 0, 60);
  EXPECT_THAT(spots("best-fit", 1000, 500), ElementsAre("d1 at 0"));
}

TEST_F(Place, MemoryIsNeverOverCommitted) {
  devices(2).room(0, 250, 100, 0, 60);
  for (const Placement& p : placements()) {
    EXPECT_THAT(spots(p.name, 250, 100, 50), ElementsAre("d1 at 0")) << p.name;
    EXPECT_THAT(spots(p.name, 250, 100, 101), IsEmpty()) << p.name;
  }
}

TEST_F(Place, WhatFitsToTheByteAndToThePermilleIsPlaced) {
  devices(1).room(0, 250, 1000, 0, 61);
  for (const Placement& p : placements()) {
    if (std::string_view(p.name) == "whole") continue;  // takes empty devices alone
    EXPECT_THAT(spots(p.name, 750, 1000, 39), ElementsAre("d0 at 250")) << p.name;
    EXPECT_THAT(spots(p.name, 750, 1000, 40), IsEmpty()) << p.name;
  }
}

TEST_F(Place, CordonedDevicesTakeNothing) {
  devices(2);
  devices_[0].drained = true;
  for (const Placement& p : placements())
    EXPECT_THAT(spots(p.name, 250, 100), ElementsAre("d1 at 0")) << p.name;
}

TEST_F(Place, OnlyDevicesAlikeTheWantedOneAreTaken) {
  devices(4);
  for (Device& d : devices_) d.kind = DeviceKind::kCuda;
  devices_[2].model = devices_[3].model = "A100";
  room(0, 250, 1000).room(2, 250, 1000);
  const auto on_a100 = [&](const Placement& p, int parts) {
    Layouts layouts = laid_out(p.name);
    std::string ids;
    for (const Spot& s :
         p.place(layouts, {nullptr, {250}, {{100}, {100}}, 10, parts, /*like=*/&devices_[3]}))
      ids += s.device->device().id;
    return ids;
  };
  for (const Placement& p : placements()) {
    if (p.name == "whole" || p.name == "complementary") continue;
    EXPECT_EQ(on_a100(p, 1), "d2") << p.name;
    EXPECT_EQ(on_a100(p, 2), "d2d3") << p.name;
    EXPECT_EQ(on_a100(p, 3), "") << p.name;
  }
  EXPECT_EQ(on_a100(*find_placement("whole"), 1), "d3");
}

TEST_F(Place, PartsGoToDevicesOfTheirOwnAllOrNone) {
  devices(3);
  for (const Placement& p : placements()) {
    EXPECT_THAT(spots(p.name, 250, 100, 10, 3), ElementsAre("d0 at 0", "d1 at 0", "d2 at 0"))
        << p.name;
    EXPECT_THAT(spots(p.name, 250, 100, 10, 4), IsEmpty()) << p.name;
  }
}

// What is left of the free rectangle, or of the device's time; then memory, then the index. Of all
// devices, examined one by one, the least.
std::optional<std::pair<size_t, Share>> examined(const Layouts& layouts, const PlaceRequest& r) {
  const bool best_fit = layouts.placement().name == "best-fit";
  const bool lanes = layouts.placement().name == "lanes";
  std::tuple<int64_t, Bytes, size_t> least;
  std::optional<std::pair<size_t, Share>> found;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const Layout& device = layouts[i];
    if (!takes(device, r)) continue;
    for (const Opening& o : device.openings(device.width(r.sm))) {
      if (o.quota < r.quota.request) continue;
      int end = o.sm_begin.permille + o.sm.permille;
      if (o.new_lane) {
        end = 1000;
        for (const Room& room : device.rooms())
          if (room.position.sm_begin >= o.sm_begin)
            end = std::min(end, room.position.sm_begin.permille);
      }
      const int64_t area = int64_t{end - o.sm_begin.permille} * o.quota.permille -
                           int64_t{o.sm.permille} * r.quota.request.permille;
      const int64_t occupancy = device.used() ? device.occupancy() : INT64_MAX;
      const std::tuple left{best_fit ? area
                            : lanes  ? occupancy
                                     : -device.occupancy(),
                            best_fit ? device.free_memory() : 0, i};
      if (!found || left < least) least = left, found = {i, o.sm_begin};
    }
  }
  return found;
}

TEST_F(Place, AnIndexFindsWhatAnExaminationOfAllDevicesFinds) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    devices_.clear();
    devices(20);
    for (Device& d : devices_) {
      d.kind = DeviceKind::kCuda;
      d.model = random.chance(0.5) ? "A100" : "T4";
      d.memory = random.between(50, 100);
      d.sm_quantum = {random.chance(0.7) ? 50 : 100};
      d.drained = random.chance(0.1);
    }
    Layouts best_fit = laid_out("best-fit"), efficiency = laid_out("efficiency");
    Layouts lanes = laid_out("lanes");
    for (int n = 0; n < 200; ++n) {
      PlaceRequest request{
          nullptr, {static_cast<int>(random.between(1, 10)) * 50}, {}, random.between(0, 20)};
      request.quota.request = {random.chance(0.5) ? 1000
                                                  : static_cast<int>(random.between(1, 9)) * 100};
      request.parts = random.chance(0.8) ? 1 : 3;
      if (random.chance(0.5)) request.like = &devices_[random.below(20)];
      for (Layouts* layouts : {&best_fit, &efficiency, &lanes}) {
        const auto expected = examined(*layouts, request);
        const auto spots = layouts->placement().place(*layouts, request);
        if (!expected || request.parts == 1) {
          ASSERT_EQ(spots.size(), expected ? 1u : 0u) << n;
        }
        if (spots.empty()) continue;
        ASSERT_EQ(spots.size(), static_cast<size_t>(request.parts)) << n;
        ASSERT_EQ(spots[0].device->device().id, devices_[expected->first].id) << n;
        ASSERT_EQ(spots[0].opening.sm_begin, expected->second) << n;
        for (const Spot& s : spots)
          s.device->place({.id = "i" + std::to_string(n),
                           .quota = request.quota.request,
                           .memory = request.memory,
                           .movable = true},
                          s.opening);
      }
    }
  }
}

TEST_F(Place, AWidthIsRoundedUpToWhatTheDeviceCanHold) {
  devices(1);
  Layouts layouts = laid_out("best-fit");
  const auto spots = layouts.placement().place(layouts, {nullptr, {260}, {{100}, {100}}, 1});
  ASSERT_EQ(spots.size(), 1u);
  EXPECT_EQ(spots[0].opening.sm, Share{500});
}

TEST_F(Place, DevicesComeByOccupancyThenById) {
  devices(5).room(0, 500, 500).room(1, 250, 500).room(3, 250, 500);
  Layouts layouts = laid_out("lanes");
  std::string order;
  DeviceQueue queue(layouts, 1);
  while (const Layout* d = queue.next()) order += d->device().id + " ";
  EXPECT_EQ(order, "d2 d4 d1 d3 d0 ");
  order.clear();
  for (const Spot& s : layouts.placement().place(layouts, {nullptr, {250}, {{100}, {100}}, 1, 5}))
    order += s.device->device().id + " ";
  EXPECT_EQ(order, "d1 d3 d0 d2 d4 ") << "lanes: used ones first";
}

}  // namespace
}  // namespace sluice::policy
