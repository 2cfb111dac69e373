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
    const Result<Promise> r = ledger.reserve(id, {{on, s, p}});
    return r.ok() ? text(r->parts.front()) : r.error().message;
  }
  std::string resize(const std::string& id, const Slice& s, std::optional<Position> p = {},
                     const std::string& on = "cpu0") {
    const Result<Promise> r = ledger.change(id, {{on, s, p}});
    return r.ok() ? text(r->parts.front()) : r.error().message;
  }
  static std::string text(const Part& p) {
    return std::to_string(p.position.sm_begin.permille) + "," +
           std::to_string(p.position.time_begin.permille);
  }
};

TEST_F(LedgerTest, FillsADeviceToTheLastPermilleAndNoFurther) {
  EXPECT_EQ(start("a", slice(500, 1000)), "0,0");
  EXPECT_EQ(start("b", slice(500, 600)), "500,0");
  EXPECT_EQ(start("c", slice(500, 400)), "500,600");
  EXPECT_EQ(start("d", slice(100, 1)),
            "cpu0 has no room for sm 10% × request 0.1% beside what it has promised");
  ledger.release("b");
  EXPECT_EQ(start("d", slice(100, 1)), "500,0");
}

// A timeline of one device: which instance arrives with which arbiter, which leaves, and what the
// device then runs.
TEST_F(LedgerTest, ADeviceInUseKeepsItsArbiterAndAnEmptyOneTakesAny) {
  const auto runs = [&](const std::string& id, const std::string& arbiter) {
    const Result<Promise> r = ledger.reserve(id, {{"cpu0", slice(100, 100), {}}}, arbiter);
    return r.ok() ? r->arbiter : r.error().message;
  };
  EXPECT_EQ(runs("a", "window"), "window");
  EXPECT_EQ(runs("b", "planned"),
            "cpu0 runs the arbiter window for a; b needs the arbiter planned");
  EXPECT_EQ(ledger.reserve("b", {{"cpu0", slice(100, 100), {}}}, "planned").error().kind,
            ErrorKind::kConflict);
  EXPECT_EQ(runs("c", "window"), "window");
  EXPECT_EQ(runs("program", ""), "window") << "it names none and takes what is there";
  EXPECT_EQ(ledger.reserve("d", {{"cpu1", slice(1000, 100), {}}}, "planned")->arbiter, "planned");
  for (const char* id : {"a", "c"}) ledger.release(id);
  EXPECT_EQ(runs("b", "planned"),
            "cpu0 runs the arbiter window for program; b needs the arbiter planned");
  ledger.release("program");
  EXPECT_FALSE(ledger.in_use("cpu0"));
  EXPECT_EQ(runs("b", "introspective"), "introspective");
  EXPECT_EQ(ledger.find("cpu0")->window, Millis(5));
  ledger.release("b");
  EXPECT_EQ(runs("program", ""), "planned") << "by default";
  EXPECT_EQ(ledger.find("cpu0")->window, Millis(20));
}

// The node's default, a bundle's; the device's kind; what an instance names; and what an empty
// device then runs.
TEST_F(LedgerTest, ANamedArbiterIsTakenAndABundlesDependsOnTheDevicesKind) {
  const struct {
    const char *bundles, *device, *named, *runs;
  } cases[] = {
      {"planned", "cpu0", "", "planned"},
      {"planned", "cuda0", "", "shares"},
      {"planned", "cpu0", "planned", "planned"},
      {"planned", "cuda0", "planned", "planned"},
      {"planned", "cuda0", "shares", "shares"},
      {"deadline", "cuda0", "", "deadline"},
      {"introspective", "cuda0", "", "introspective"},
      {"tgs", "cuda0", "shares", "shares"},
      {"window", "cpu0", "", "window"},
  };
  Device gpu = device("cuda0");
  gpu.kind = DeviceKind::kCuda;
  for (const auto& [bundles, on, named, runs] : cases) {
    ledger = Ledger({device("cpu0"), gpu}, bundles);
    const Result<Promise> r = ledger.reserve("a", {{on, slice(100, 100), {}}}, named);
    ASSERT_TRUE(r.ok()) << r.error().message;
    EXPECT_EQ(r->arbiter, runs) << bundles << " " << on << " " << named;
    EXPECT_EQ(ledger.find(on)->window, policy::window_of(runs));
  }
}

TEST_F(LedgerTest, ACpuRefusesAnArbiterOfGpus) {
  const Result<Promise> r = ledger.reserve("a", {{"cpu0", slice(100, 100), {}}}, "shares");
  EXPECT_EQ(r.error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(r.error().message,
            "arbiter: 'shares' is none of planned, deadline, window, multi_token, introspective, "
            "share_fixed_limit, share_fixed_request, tgs, which a CPU can run");
  EXPECT_FALSE(ledger.in_use("cpu0"));
}

// Of a GPU that an earlier version left with clients under `planned`.
TEST_F(LedgerTest, AGpuWithClientsKeepsItsArbiterUntilItIsEmpty) {
  Device gpu = device("cuda0");
  gpu.kind = DeviceKind::kCuda;
  ledger = Ledger({gpu});
  const auto runs = [&](const std::string& id, const std::string& named) {
    const Result<Promise> r = ledger.reserve(id, {{"cuda0", slice(100, 100), {}}}, named);
    return r.ok() ? r->arbiter : r.error().message;
  };
  EXPECT_EQ(runs("old", "planned"), "planned");
  EXPECT_EQ(runs("program", ""), "planned");
  EXPECT_EQ(runs("new", "shares"),
            "cuda0 runs the arbiter planned for old; new needs the arbiter shares");
  ledger.release("old");
  EXPECT_EQ(runs("second", ""), "planned");
  for (const char* id : {"program", "second"}) ledger.release(id);
  EXPECT_EQ(runs("new", ""), "shares");
}

TEST_F(LedgerTest, AnArbiterThatTheUserFixedRulesOverTheOneThatIsNamed) {
  Device fixed = device("cpu0");
  fixed.arbiter = "deadline";
  ledger = Ledger({fixed});
  for (const std::string named : {"window", "planned", ""})
    EXPECT_EQ(ledger.reserve("for " + named, {{"cpu0", slice(100, 100), {}}}, named)->arbiter,
              "deadline");
}

TEST_F(LedgerTest, SaysWhoHoldsTheRectangle) {
  EXPECT_EQ(start("a", slice(500, 500), at(0, 0)), "0,0");
  EXPECT_EQ(start("b", slice(500, 500), at(400, 400)),
            "cpu0: the rectangle at sm 40%, time 40% is promised to a");
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
            "slice.sm: 15% is not a multiple of 10% between 10% and 100%, what cpu0 can hold");
  EXPECT_EQ(start("a", slice(500, 100), {}, "cpu1"),
            "slice.sm: 50% is not a multiple of 100% between 100% and 100%, what cpu1 can hold");
  EXPECT_EQ(start("a", slice(100, 0)), "slice.request: 0% is not between 0.1% and 100%");
  EXPECT_EQ(start("a", {{100}, {{500}, {400}}, 0}),
            "slice.limit: 40% is not between the request, 50%, and 100%");
  EXPECT_EQ(start("a", slice(500, 100), at(600, 0)),
            "position.sm_begin: 60% is not a multiple of 10% between 0 and 50%");
  EXPECT_EQ(start("a", slice(500, 100), at(0, 901)),
            "position.time_begin: 90.1% is not between 0 and 90%");
  EXPECT_EQ(start("a", slice(500, 100), {}, "gpu"), "device: there is no 'gpu' on this node");
  EXPECT_EQ(resize("nobody", slice(100, 100)), "nobody holds no slice");
}

TEST_F(LedgerTest, AResizeStaysInItsPlaceWhileThatFits) {
  start("a", slice(1000, 300), at(0, 0));
  start("b", slice(1000, 300), at(0, 300));
  EXPECT_EQ(resize("b", slice(1000, 700)), "0,300");
  EXPECT_EQ(resize("a", slice(1000, 301)),
            "cpu0 has no room for sm 100% × request 30.1% beside what it has promised");
  EXPECT_EQ(resize("b", slice(1000, 200)), "0,300");
  EXPECT_EQ(resize("a", slice(1000, 400)), "0,500");  // its lane's next free time
}

TEST_F(LedgerTest, SmChangesOnlyWhereTheDeviceCan) {
  start("a", slice(100, 100));
  EXPECT_EQ(resize("a", slice(200, 100)), "0,0");
  Device fixed = device("gpu");
  fixed.can_resize_sm = false;
  Ledger mps({fixed});
  ASSERT_TRUE(mps.reserve("a", {{"gpu", slice(100, 100), {}}}).ok());
  EXPECT_EQ(mps.change("a", {{"gpu", slice(200, 100), {}}}).error().message,
            "slice.sm: a running instance's sm cannot change on gpu");
  EXPECT_TRUE(mps.change("a", {{"gpu", slice(100, 900), {}}}).ok());
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
  EXPECT_EQ(apart.reserve("a", {{"gpu", slice(100, 100), {}}}).error().message,
            "gpu is drained (it is split by MIG): it takes nothing new");
  EXPECT_EQ(apart.set_drained("gpu", false).error().message,
            "gpu stays drained: it is split by MIG");
  EXPECT_TRUE(apart.find("gpu")->drained);
}

struct PartsTest : LedgerTest {
  std::string ask(const std::vector<PartRequest>& wanted, bool change = false) {
    const Result<Promise> r =
        change ? ledger.change("pair", wanted) : ledger.reserve("pair", wanted);
    if (!r.ok()) return r.error().message;
    std::string out;
    for (const Part& p : r->parts) out += (out.empty() ? "" : " ") + p.device + " " + text(p);
    return out;
  }
};

TEST_F(PartsTest, AllPartsAreReservedAndReleasedTogether) {
  start("a", slice(1000, 700));
  EXPECT_EQ(ask({{"cpu0", slice(1000, 300), {}}, {"cpu1", slice(1000, 600), {}}}),
            "cpu0 0,700 cpu1 0,0");
  EXPECT_EQ(start("b", slice(1000, 500), {}, "cpu1"),
            "cpu1 has no room for sm 100% × request 50% beside what it has promised");
  ledger.release("pair");
  EXPECT_EQ(start("b", slice(1000, 500), {}, "cpu1"), "0,0");
  EXPECT_EQ(start("c", slice(1000, 300)), "0,700");
}

TEST_F(PartsTest, ARefusedPartReservesNothingAndItsDeviceIsNamed) {
  start("a", slice(1000, 700), {}, "cpu1");
  EXPECT_EQ(ask({{"cpu0", slice(1000, 900), {}}, {"cpu1", slice(1000, 400), {}}}),
            "the part on cpu1: cpu1 has no room for sm 100% × request 40% beside what it has "
            "promised");
  EXPECT_EQ(ask({{"cpu0", slice(1000, 900), {}}, {"cpu1", slice(1000, 0), {}}}),
            "the part on cpu1: slice.request: 0% is not between 0.1% and 100%");
  EXPECT_EQ(ask({{"cpu0", slice(100, 100), {}}, {"cpu0", slice(100, 100), {}}}),
            "parts: 'cpu0' is there twice; each part has its own device");
  EXPECT_EQ(ask({}), "parts: there is none; an instance has at least one");
  EXPECT_FALSE(ledger.promises().contains("pair"));
  EXPECT_EQ(start("b", slice(1000, 1000)), "0,0") << "cpu0 is free";
}

TEST_F(PartsTest, ARefusedChangeOfOnePartChangesNone) {
  ask({{"cpu0", slice(1000, 300), {}}, {"cpu1", slice(1000, 300), {}}});
  start("a", slice(1000, 500), {}, "cpu1");
  const Promise before = ledger.promises().at("pair");
  EXPECT_EQ(ask({{"cpu0", slice(1000, 600), {}}, {"cpu1", slice(1000, 600), {}}}, true),
            "the part on cpu1: cpu1 has no room for sm 100% × request 60% beside what it has "
            "promised");
  EXPECT_EQ(ledger.promises().at("pair"), before);
  EXPECT_EQ(ask({{"cpu0", slice(1000, 600), {}}, {"cpu1", slice(1000, 200), {}}}, true),
            "cpu0 0,0 cpu1 0,0");
}

TEST_F(PartsTest, AChangeNeitherAddsNorDropsNorMovesAPart) {
  ask({{"cpu0", slice(1000, 300), {}}, {"cpu1", slice(1000, 300), {}}});
  const PartRequest zero{"cpu0", slice(1000, 300), {}}, one{"cpu1", slice(1000, 300), {}};
  for (const std::vector<PartRequest>& wanted : {std::vector{zero}, {one, zero}, {zero, one, one}})
    EXPECT_EQ(ask(wanted, true),
              "parts: pair keeps its devices, cpu0, cpu1; a change gives all its parts, in this "
              "order");
}

// The devices' arbiters, the instance's, and the one that all of them then run.
TEST_F(PartsTest, AllDevicesOfAnInstanceRunOneArbiter) {
  const auto runs = [&](const std::string& on_second, const std::string& named) {
    ledger = Ledger({device("cpu0"), device("cpu1")});
    if (!on_second.empty()) (void)ledger.reserve("a", {{"cpu1", slice(100, 100), {}}}, on_second);
    const Result<Promise> r = ledger.reserve(
        "pair", {{"cpu0", slice(100, 100), {}}, {"cpu1", slice(100, 100), {}}}, named);
    return r.ok() ? r->arbiter : r.error().message;
  };
  EXPECT_EQ(runs("", ""), "planned") << "by default";
  EXPECT_EQ(runs("", "introspective"), "introspective");
  EXPECT_EQ(ledger.find("cpu0")->window, Millis(5));
  EXPECT_EQ(ledger.find("cpu1")->window, Millis(5));
  EXPECT_EQ(runs("window", ""), "window") << "the empty device takes that of the other";
  EXPECT_EQ(runs("window", "planned"),
            "cpu1 runs the arbiter window for a; pair needs the arbiter planned");
  EXPECT_FALSE(ledger.in_use("cpu0"));
}

// Under any requests in any order, no point of space and time, and no byte, belongs to two slices.
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
        (void)ledger.reserve(id, {{"cpu0", s, p}});
      else
        (void)ledger.change(id, {{"cpu0", s, p}});

      Bytes memory = 0;
      std::vector<InstanceId> cells(10 * 1000);
      for (const auto& [owner, promise] : ledger.promises()) {
        const Part& held = promise.parts.front();
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
