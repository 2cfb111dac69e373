#include "node/ledger.h"

#include <gtest/gtest.h>

#include <random>

#include "base/random.h"

namespace sluice::node {
namespace {

constexpr Bytes kMemory = 1000;

Device device(const std::string& id, int quantum = 100) {
  return {.id = id,
          .millicores = 4000,
          .memory = kMemory,
          .sm_quantum = {quantum},
          .can_resize_sm = true};
}

Slice slice(int sm, int request, Bytes memory = 0) {
  return {{sm}, {{request}, kWhole}, memory};
}

Position at(int sm, int time) {
  return {{sm}, {time}};
}

struct LedgerTest : testing::Test {
  Ledger ledger{{device("cpu0"), device("cpu1", 1000)}};

  std::string start(const std::string& id, const Slice& s, std::optional<Position> p = {},
                    const std::string& on = "cpu0") {
    const Result<Promise> r = ledger.reserve(id, on, s, p);
    return r.ok() ? text(*r) : r.error().message;
  }
  std::string resize(const std::string& id, const Slice& s, std::optional<Position> p = {}) {
    const Result<Promise> r = ledger.change(id, s, p);
    return r.ok() ? text(*r) : r.error().message;
  }
  static std::string text(const Promise& p) {
    return std::to_string(p.position.sm_begin.permille) + "," +
           std::to_string(p.position.time_begin.permille);
  }
};

TEST_F(LedgerTest, FillsADeviceToTheLastPermilleAndNoFurther) {
  EXPECT_EQ(start("a", slice(500, 1000)), "0,0");
  EXPECT_EQ(start("b", slice(500, 600)), "500,0");
  EXPECT_EQ(start("c", slice(500, 400)), "500,600");
  EXPECT_EQ(start("d", slice(100, 1)),
            "cpu0 has no room for sm 100 × request 1 beside what it has promised");
  ledger.release("b");
  EXPECT_EQ(start("d", slice(100, 1)), "500,0");
}

TEST_F(LedgerTest, SaysWhoHoldsTheRectangle) {
  EXPECT_EQ(start("a", slice(500, 500), at(0, 0)), "0,0");
  EXPECT_EQ(start("b", slice(500, 500), at(400, 400)),
            "cpu0: the rectangle at sm 400, time 400 is promised to a");
  EXPECT_EQ(start("b", slice(500, 500), at(400, 500)), "400,500");
  EXPECT_EQ(start("b", slice(100, 100)), "b holds a slice already");
}

TEST_F(LedgerTest, MemoryIsPromisedOnce) {
  EXPECT_EQ(start("a", slice(100, 100, 600)), "0,0");
  EXPECT_EQ(start("b", slice(100, 100, 500)),
            "cpu0: 500 bytes more would promise 1100 of its 1000");
  EXPECT_EQ(start("b", slice(100, 100, 1001)),
            "slice.memory: 1001 is not between 0 and the 1000 bytes of cpu0");
  EXPECT_EQ(resize("a", slice(100, 100, 500)), "0,0");
  EXPECT_EQ(start("b", slice(100, 100, 500)), "0,100");
}

TEST_F(LedgerTest, NamesTheFieldTheValueAndWhatIsAllowed) {
  EXPECT_EQ(start("a", slice(150, 100)),
            "slice.sm: 150 is not a multiple of 100 between 100 and 1000, what cpu0 can hold");
  EXPECT_EQ(start("a", slice(500, 100), {}, "cpu1"),
            "slice.sm: 500 is not a multiple of 1000 between 1000 and 1000, what cpu1 can hold");
  EXPECT_EQ(start("a", slice(100, 0)), "slice.request: 0 is not between 1 and 1000");
  EXPECT_EQ(start("a", {{100}, {{500}, {400}}, 0}),
            "slice.limit: 400 is not between the request, 500, and 1000");
  EXPECT_EQ(start("a", slice(500, 100), at(600, 0)),
            "position.sm_begin: 600 is not a multiple of 100 between 0 and 500");
  EXPECT_EQ(start("a", slice(500, 100), at(0, 901)),
            "position.time_begin: 901 is not between 0 and 900");
  EXPECT_EQ(start("a", slice(500, 100), {}, "gpu"), "device: there is no 'gpu' on this node");
  EXPECT_EQ(resize("nobody", slice(100, 100)), "nobody holds no slice");
}

TEST_F(LedgerTest, AResizeStaysInItsPlaceWhileThatFits) {
  start("a", slice(1000, 300), at(0, 0));
  start("b", slice(1000, 300), at(0, 300));
  EXPECT_EQ(resize("b", slice(1000, 700)), "0,300");
  EXPECT_EQ(resize("a", slice(1000, 301)),
            "cpu0 has no room for sm 1000 × request 301 beside what it has promised");
  EXPECT_EQ(resize("b", slice(1000, 200)), "0,300");
  EXPECT_EQ(resize("a", slice(1000, 400)), "0,500");  // its lane's next free time
}

TEST_F(LedgerTest, SmChangesOnlyWhereTheDeviceCan) {
  start("a", slice(100, 100));
  EXPECT_EQ(resize("a", slice(200, 100)), "0,0");
  Device fixed = device("gpu");
  fixed.can_resize_sm = false;
  Ledger mps({fixed});
  ASSERT_TRUE(mps.reserve("a", "gpu", slice(100, 100), {}).ok());
  EXPECT_EQ(mps.change("a", slice(200, 100), {}).error().message,
            "slice.sm: a running instance's sm cannot change on gpu");
  EXPECT_TRUE(mps.change("a", slice(100, 900), {}).ok());
}

TEST_F(LedgerTest, ADrainedDeviceTakesNothingNew) {
  start("a", slice(100, 100));
  ASSERT_TRUE(ledger.set_drained("cpu0", true).ok());
  EXPECT_EQ(start("b", slice(100, 100)), "cpu0 is drained: it takes nothing new");
  EXPECT_EQ(resize("a", slice(100, 200)), "0,0");
  EXPECT_FALSE(ledger.set_drained("gpu", true).ok());
}

TEST_F(LedgerTest, ADeviceThatIsSetApartStaysDrained) {
  Device split = device("gpu");
  split.drained = true;
  split.set_apart = "it is split by MIG";
  Ledger apart({split});
  EXPECT_EQ(apart.reserve("a", "gpu", slice(100, 100), {}).error().message,
            "gpu is drained (it is split by MIG): it takes nothing new");
  EXPECT_EQ(apart.set_drained("gpu", false).error().message,
            "gpu stays drained: it is split by MIG");
  EXPECT_TRUE(apart.find("gpu")->drained);
}

// Whatever is asked in whatever order: no point of space and time, and no byte, belongs to two.
TEST(LedgerProperty, NeverPromisesAThingTwice) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  for (int round = 0; round < 20; ++round) {
    Ledger ledger({device("cpu0")});
    for (int step = 0; step < 200; ++step) {
      const std::string id = std::string(1, static_cast<char>('a' + random.below(20)));
      const Slice s = slice(static_cast<int>(random.between(1, 10)) * 100,
                            static_cast<int>(random.between(1, 500)), random.between(0, 300));
      std::optional<Position> p;
      if (random.chance(0.5))
        p = at(static_cast<int>(random.between(0, 9)) * 100, static_cast<int>(random.below(1000)));
      if (random.chance(0.2))
        ledger.release(id);
      else if (random.chance(0.5))
        (void)ledger.reserve(id, "cpu0", s, p);
      else
        (void)ledger.change(id, s, p);

      Bytes memory = 0;
      std::vector<InstanceId> cells(10 * 1000);
      for (const auto& [owner, held] : ledger.promises()) {
        memory += held.slice.memory;
        for (int sm = held.position.sm_begin.permille / 100;
             sm < (held.position.sm_begin + held.slice.sm).permille / 100; ++sm)
          for (int t = held.position.time_begin.permille;
               t < (held.position.time_begin + held.slice.quota.request).permille; ++t) {
            InstanceId& cell = cells[static_cast<size_t>(sm * 1000 + t)];
            ASSERT_EQ(cell, "") << owner << " over " << cell;
            cell = owner;
          }
      }
      ASSERT_LE(memory, kMemory);
    }
  }
}

}  // namespace
}  // namespace sluice::node
