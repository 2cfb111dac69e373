#include "node/shift_room.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <random>

#include "base/random.h"

namespace sluice::node {
namespace {

const DeviceId kDevice = "cuda0";

Slice slice(int request, int sm = 1000) {
  return {{sm}, {{request}, kWhole}, 0};
}

// A lane is written as a letter for each tenth of the window: "aaa..bb...". Capitals must not be
// shifted.
struct Node {
  Ledger ledger{{Device{.id = kDevice, .memory = 1000, .sm_quantum = {100}}}};

  explicit Node(const std::string& lane = "", int sm_begin = 0, int sm = 1000) {
    add(lane, sm_begin, sm);
  }
  void add(const std::string& lane, int sm_begin, int sm) {
    for (size_t at = 0, next; at < lane.size(); at = next) {
      next = std::min(lane.find_first_not_of(lane[at], at), lane.size());
      const Position p{{sm_begin}, {static_cast<int>(at) * 100}};
      if (lane[at] == '.') continue;
      EXPECT_TRUE(ledger
                      .reserve(std::string(1, lane[at]),
                               {{kDevice, slice(static_cast<int>(next - at) * 100, sm), p}})
                      .ok());
    }
  }

  std::string lane(int sm_begin = 0) const {
    std::string out(10, '.');
    for (const auto& [id, promise] : ledger.promises()) {
      const Part& p = promise.parts.front();
      if (p.position.sm_begin.permille != sm_begin) continue;
      const auto at = static_cast<size_t>(p.position.time_begin.permille / 100),
                 length = static_cast<size_t>(p.slice.quota.request.permille / 100);
      out.replace(at, length, length, id[0]);
    }
    return out;
  }

  // Returns whether it fits after all shifts for it; the ledger checks each shift.
  bool fits(const InstanceId& id, const Slice& wanted) {
    const std::vector<Shift> shifts =
        shifts_for(ledger, id, kDevice, wanted,
                   [](const InstanceId& other) { return std::islower(other[0]) != 0; });
    if (shifts.empty()) return false;
    for (const Shift& s : shifts) {
      const bool is_last = s.id == id;
      const bool held = ledger.promises().contains(s.id);
      const Slice as = is_last ? wanted : ledger.promises().at(s.id).parts.front().slice;
      const auto done = held ? ledger.change(s.id, {{kDevice, as, s.to}})
                             : ledger.reserve(s.id, {{kDevice, as, s.to}});
      EXPECT_TRUE(done.ok()) << done.error().message;
    }
    EXPECT_EQ(shifts.back().id, id);
    return true;
  }
};

TEST(ShiftRoom, WhoGrowsPushesItsNeighboursAside) {
  struct Case {
    const char *before, *id;
    int request;
    const char* after;
  };
  for (const Case& c : {
           Case{"aaabb...cc", "a", 600, "aaaaaabbcc"},  // those behind it
           Case{"aaa..bb.cc", "c", 500, "aaabbccccc"},  // those before it
           Case{"..bbb..cc.", "b", 800, "bbbbbbbbcc"},  // on both sides
           Case{"aa.bb.cc..", "b", 600, "aabbbbbbcc"},
           Case{"aabb......", "a", 300, "aaabb....."},  // no further than it must
       }) {
    Node node(c.before);
    EXPECT_TRUE(node.fits(c.id, slice(c.request))) << c.before;
    EXPECT_EQ(node.lane(), c.after) << c.before;
  }
}

TEST(ShiftRoom, WhoComesGetsWhatIsLeftInPieces) {
  Node node(".aa..bb..c");
  EXPECT_TRUE(node.fits("d", slice(500)));
  EXPECT_EQ(node.ledger.promises().at("d").parts.front().slice.quota.request, Share{500});
  EXPECT_EQ(node.lane().find('.'), std::string::npos) << node.lane();
}

TEST(ShiftRoom, WhatMayNotBeShiftedStaysAndIsNotPassed) {
  Node node("aa.B..cc.d");
  EXPECT_FALSE(node.fits("c", slice(700)));
  EXPECT_FALSE(node.fits("e", slice(400)));
  EXPECT_TRUE(node.fits("c", slice(500)));
  EXPECT_EQ(node.lane(), "aa.Bcccccd");
  EXPECT_FALSE(node.fits("B", slice(500))) << "for itself others move, but there is no more room";
  EXPECT_TRUE(node.fits("B", slice(200)));
  EXPECT_EQ(node.lane(), "aaBBcccccd");
}

TEST(ShiftRoom, MoreThanThereIsCannotBeHad) {
  Node node("aaabb.cccc");
  EXPECT_FALSE(node.fits("a", slice(500)));
  EXPECT_FALSE(node.fits("d", slice(200)));
  EXPECT_FALSE(node.fits("d", slice(50, 150))) << "no multiple of the quantum";
  EXPECT_EQ(node.lane(), "aaabb.cccc");
}

TEST(ShiftRoom, OtherLanesStayAsTheyAre) {
  Node node("aa.bb.....", 0, 500);
  node.add("..cc..dd..", 500, 500);
  EXPECT_TRUE(node.fits("d", slice(800, 500)));
  EXPECT_EQ(node.lane(0), "aa.bb.....");
  EXPECT_EQ(node.lane(500), "ccdddddddd");
}

// Each shift finds its place free, as fits() checks, and all of a lane's free time can be used.
TEST(ShiftRoomProperty, WhatALaneHasInAllCanBeHad) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  for (int round = 0; round < 200; ++round) {
    Node node;
    for (int step = 0; step < 30; ++step) {
      const std::string id(1, static_cast<char>('a' + random.below(6)));
      if (random.below(3) == 0) {
        node.ledger.release(id);
        continue;
      }
      int others = 0;
      for (const auto& [other, p] : node.ledger.promises())
        if (other != id) others += p.parts.front().slice.quota.request.permille;
      const int request = 1 + static_cast<int>(random.below(1000));
      EXPECT_EQ(node.fits(id, slice(request)), others + request <= 1000);
    }
  }
}

}  // namespace
}  // namespace sluice::node
