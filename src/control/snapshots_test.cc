#include "control/snapshots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>

#include "base/random.h"

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
    Snapshot s;
    bring_up_to_date(s);
    return s;
  }
  SnapshotChanges bring_up_to_date(Snapshot& s) {
    return update(s, functions, seen, Rollouts({}), starts, stops, {}, Time{});
  }
  ObservedInstance instance(const std::string& id, const FunctionName& f) {
    return {.instance = {.id = id, .function = f, .parts = {{"cpu0", {}, {}}}}};
  }

  Functions functions;
  Observation seen;
  Starts starts{{}};
  Stops stops{Seconds(10)};
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

TEST_F(SnapshotsTest, ANewRevisionHasItsInitialScaleForTwoMinutes) {
  Revision& revision = functions[kF].stored.revisions[0];
  revision.created = 1'000'000;
  revision.spec.inference().initial_scale = 3;
  Snapshot s;
  const auto least = [&](UnixMillis after) {
    update(s, functions, seen, Rollouts({}), starts, stops, {.wall = revision.created + after},
           Time{});
    return s.functions[0].spec.inference().min_replicas;
  };
  EXPECT_EQ(least(0), 3);
  EXPECT_EQ(least(119'000), 3);
  EXPECT_EQ(least(120'000), 1);
}

// A walk over 300 random changes: what is brought up to date equals what is made anew, and whatever
// differs from the tick before is reported.
TEST_F(SnapshotsTest, WhatIsBroughtUpToDateEqualsWhatIsMadeAnew) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  const auto pick = [&](auto& list) { return random.below(list.size()); };
  const auto name = [&] {
    return FunctionName{.name = std::string(1, static_cast<char>('a' + random.below(8)))};
  };
  Snapshot kept;
  for (int n = 0; n < 300; ++n) {
    const uint64_t number = random.below(20);
    const std::string id = "i" + std::to_string(number);
    const FunctionName owner{.name = std::string(1, static_cast<char>('a' + number % 8))};
    const auto at = std::ranges::lower_bound(
        seen.instances, id, {},
        [](const ObservedInstance& o) -> const InstanceId& { return o.instance.id; });
    const bool there = at != seen.instances.end() && at->instance.id == id;
    switch (random.below(8)) {
      case 0:
        if (const FunctionName f = name(); !functions.contains(f)) {
          functions[f].stored = {f, 1, 1, {{f, 1, {.name = f}, 0}}, true};
          functions[f].bundle = policy::find_bundle("fixed");
        } else {
          functions.erase(f);
        }
        break;
      case 1:
        if (there) seen.instances.erase(at);
        break;
      case 2:
        if (!there) seen.instances.insert(at, instance(id, owner));
        break;
      case 3:
        if (there) at->instance.state = static_cast<InstanceState>(random.below(4));
        break;
      case 4:
        if (there) at->instance.first().slice.quota.request = {static_cast<int>(pick(id))};
        break;
      case 5:
        random.below(2) == 0 ? stops.ask(id, Time{}) : stops.reconcile({});
        break;
      case 6:
        if (!there) starts.ordered(instance(id, owner).instance, Time(Seconds(n)));
        starts.reconcile(seen.instances, {}, Time(Seconds(n)));
        break;
      default:
        if (random.below(2) == 0 && !seen.devices.empty())
          seen.devices.erase(seen.devices.begin() +
                             static_cast<std::ptrdiff_t>(pick(seen.devices)));
        else
          seen.devices.push_back({.id = "z" + std::to_string(n)});
    }
    const Snapshot before = kept;
    const SnapshotChanges changes = bring_up_to_date(kept);
    const Snapshot anew = snapshot();
    ASSERT_EQ(kept.functions, anew.functions);
    ASSERT_EQ(kept.instances, anew.instances);
    ASSERT_EQ(kept.devices, anew.devices);
    ASSERT_EQ(changes.devices, before.devices != kept.devices);
    ASSERT_EQ(changes.instances, before.instances != kept.instances);
    ASSERT_EQ(changes.functions.size(), kept.functions.size());
    const auto instances_of = [](const Snapshot& s, const FunctionName& f) {
      std::vector<Instance> of;
      std::ranges::copy_if(s.instances, std::back_inserter(of),
                           [&](const Instance& i) { return i.function == f; });
      return of;
    };
    for (size_t f = 0; f < kept.functions.size(); ++f) {
      const FunctionView& view = kept.functions[f];
      const auto known = std::ranges::find(before.functions, view);
      const bool same = known != before.functions.end() &&
                        instances_of(before, view.spec.name) == instances_of(kept, view.spec.name);
      ASSERT_TRUE(same || changes.functions[f]) << view.spec.name.name << " after " << n;
    }
  }
}

TEST_F(SnapshotsTest, ATickThatChangesNothingReportsNothing) {
  seen.devices.push_back({.id = "cpu0"});
  seen.instances.push_back(instance("a", kF));
  Snapshot s;
  EXPECT_TRUE(bring_up_to_date(s).functions[0]);
  functions[kF].last_request = Time(Seconds(5));
  functions[kF].forecast = {.expected = 0.3, .seen = true};
  EXPECT_TRUE(bring_up_to_date(s).functions[0]);
  functions[kF].forecast.expected = 0.1 + 0.2;
  const SnapshotChanges none = bring_up_to_date(s);
  EXPECT_FALSE(none.functions[0] || none.instances || none.devices);
  EXPECT_EQ(s.functions[0].last_request, Time(Seconds(5)));
}

}  // namespace
}  // namespace sluice::control
