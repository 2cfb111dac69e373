#include "control/keeper.h"

#include <gtest/gtest.h>

#include "control/journal_memory.h"

namespace sluice::control {
namespace {

const FunctionName kF{.name = "f"};
constexpr Nanos kHour = std::chrono::hours(480'000);

// The parts of a loop that are kept.
struct Parts {
  Parts() {
    functions[kF].stored.name = kF;
    functions[kF].stored.newest = 2;
    functions[kF].stored.serving = 1;
  }
  Functions functions;
  Accounting accounting;
  Rollouts rollouts{{}};
  Counts counts{Seconds(1)};
  Policies policies{{"fixed", {}}, 1, Seconds(1)};
  Keeper keeper{{functions, accounting, rollouts, counts, policies}};
};

Observation seen(const std::vector<InstanceId>& ids) {
  Observation o{.nodes = {{.node = {.boot_id = "boot"}}}};
  for (const InstanceId& id : ids) o.instances.push_back({.instance = {.id = id}, .pid = 1});
  return o;
}

class KeeperTest : public testing::Test {
 protected:
  void write(Parts& p, const Observation& o) {
    JournalEntry entry = p.keeper.changes(o);
    if (journal.write(entry).ok())
      p.keeper.written(entry);
    else
      p.keeper.not_written();
  }
  std::string instances() {
    std::string out;
    const auto all = *journal.instances();
    for (const StoredInstance& i : all) out += i.instance.id + " ";
    return out;
  }
  MemoryJournal journal;
};

TEST_F(KeeperTest, InstancesAreKeptAsDifferences) {
  Parts p;
  write(p, seen({"a", "b"}));
  EXPECT_EQ(instances(), "a b ");
  EXPECT_TRUE(p.keeper.changes(seen({"a", "b"})).empty());
  const JournalEntry entry = p.keeper.changes(seen({"b", "c"}));
  EXPECT_EQ(entry.ended, std::vector<InstanceId>{"a"});
  ASSERT_EQ(entry.instances.size(), 1u);
  write(p, seen({"b", "c"}));
  EXPECT_EQ(instances(), "b c ");
  Observation away = seen({});
  away.nodes[0].node.reachable = false;
  EXPECT_TRUE(p.keeper.changes(away).empty());
}

TEST_F(KeeperTest, WhatIsNotWrittenIsInTheNextEntry) {
  Parts p;
  journal.full = true;
  write(p, seen({"a"}));
  journal.full = false;
  write(p, seen({"a"}));
  EXPECT_EQ(instances(), "a ");
}

TEST_F(KeeperTest, CountersAreWrittenWhenTheyAreDueAndHaveChanged) {
  Parts p;
  p.accounting.of(kF).starts = 3;
  EXPECT_TRUE(p.keeper.changes(seen({})).accounts.empty());
  p.keeper.counted();
  write(p, seen({}));
  EXPECT_EQ(journal.accounts()->at("default/f").at("starts"), 3);
  p.keeper.counted();
  EXPECT_FALSE(p.keeper.changes(seen({})).accounts.contains("default/f"));
}

TEST_F(KeeperTest, ManyFunctionsTakeTurns) {
  Parts p;
  constexpr int kFunctions = 250;
  for (int n = 1; n < kFunctions; ++n) {
    const FunctionName name{.name = "f" + std::to_string(n)};
    p.functions[name].stored.name = name;
  }
  for (auto& [name, f] : p.functions) p.accounting.of(name).starts = 1;
  for (const size_t wanted : {100u, 200u, 250u}) {
    p.keeper.counted();
    write(p, seen({}));
    EXPECT_EQ(journal.accounts()->size(), wanted + 1) << "and the platform's";
  }
  for (auto& [name, f] : p.functions) p.accounting.of(name).starts = 2;
  p.keeper.count_all();
  EXPECT_EQ(p.keeper.changes(seen({})).accounts.size(), kFunctions + 1u);
}

TEST_F(KeeperTest, WhatAnInstanceUsedIsChargedOnceAcrossLoops) {
  const std::vector<Device> devices = {{.id = "cpu0", .millicores = 1000, .memory = 1 << 30}};
  const auto used = [](Nanos busy) {
    ObservedInstance o{.instance = {.id = "a", .function = kF}};
    o.instance.parts = {{"cpu0", {{1000}, {{500}, {500}}}, {}}};
    o.used = busy;
    return std::vector{o};
  };
  Parts p;
  p.accounting.step(used(Seconds(3)), devices, Seconds(10));
  p.keeper.counted();
  write(p, seen({}));

  Parts next;
  next.keeper.restore(*journal.accounts(), *journal.instances());
  next.accounting.step(used(Seconds(4)), devices, Seconds(10));
  EXPECT_DOUBLE_EQ(next.accounting.of(kF).used_seconds, 4);
}

TEST_F(KeeperTest, AFunctionsHourIsWrittenOnceAMinuteIfItHadArrivals) {
  Parts p;
  FunctionName idle{.name = "idle"};
  p.functions[idle].stored.name = idle;
  size_t rows = 0;
  for (int second = 0; second < 150; ++second) {
    const Nanos now = kHour + Seconds(second);
    p.functions[kF].arrivals->add(now, now + Seconds(1), second < 100 ? 2 : 0);
    p.functions[idle].arrivals->add(now, now + Seconds(1), 0);
    p.keeper.counted();
    JournalEntry entry = p.keeper.changes(seen({}));
    rows += entry.arrivals.size();
    ASSERT_TRUE(journal.write(entry).ok());
    p.keeper.written(entry);
  }
  EXPECT_EQ(rows, 3u) << "at the first second and at the ends of two minutes";
  const auto hours = *journal.arrivals(kF);
  ASSERT_EQ(hours.size(), 1u);
  EXPECT_EQ(hours[0].hour, kHour / std::chrono::hours(1));
  EXPECT_EQ(hours[0].arrivals[0], 120u);
  EXPECT_EQ(hours[0].arrivals[1], 80u);
  EXPECT_TRUE(journal.arrivals(idle)->empty());
}

TEST_F(KeeperTest, AnHourThatCouldNotBeWrittenIsInALaterEntry) {
  Parts p;
  journal.full = true;
  const auto minute = [&](int n, uint64_t arrivals) {
    p.functions[kF].arrivals->add(kHour + n * Seconds(60), kHour + (n + 1) * Seconds(60), arrivals);
    p.keeper.counted();
    write(p, seen({}));
  };
  for (int n = 0; n < 90; ++n) minute(n, 5);
  journal.full = false;
  minute(90, 0);
  const auto hours = *journal.arrivals(kF);
  ASSERT_EQ(hours.size(), 2u);
  EXPECT_EQ(hours[0].arrivals[0], 5u);
  EXPECT_EQ(hours[1].arrivals[29], 5u);
}

TEST_F(KeeperTest, HoursThatWereRestoredAreNotWrittenAgain) {
  Parts p;
  for (int64_t hour = 1; hour <= 5; ++hour)
    p.functions[kF].arrivals->restore(1000 + hour, ArrivalHistory::Hour{1});
  p.keeper.restore({}, {});
  p.keeper.counted();
  EXPECT_TRUE(p.keeper.changes(seen({})).arrivals.empty()) << "nothing was counted yet";
  write(p, seen({}));
  const Nanos now = std::chrono::hours(1006);
  p.functions[kF].arrivals->add(now, now + Seconds(1), 1);
  p.keeper.counted();
  const JournalEntry entry = p.keeper.changes(seen({}));
  ASSERT_EQ(entry.arrivals.size(), 2u) << "the last one, which may have been in progress";
  EXPECT_EQ(entry.arrivals[0].hour, 1005);
  EXPECT_EQ(entry.arrivals[1].hour, 1006);
}

TEST_F(KeeperTest, TheNextLoopGoesOnWhereThisOneStood) {
  Parts p;
  p.accounting.of(kF).cost = 1.5;
  p.rollouts.restore(kF, "Revision 2 could not start");
  p.policies.restore({{"fixed", {.version = 4, .numbers = {{"f", {1, 2}}}}}}, "boot");
  p.functions[kF].traffic.step({.function = kF, .requests = 9, .ok = 9}, Seconds(1), false);
  p.keeper.counted();
  write(p, seen({"a"}));

  Parts next;
  next.keeper.restore(*journal.accounts(), *journal.instances());
  EXPECT_EQ(next.accounting.of(kF).cost, 1.5);
  EXPECT_EQ(next.rollouts.failed(kF), "Revision 2 could not start");
  EXPECT_EQ(next.policies.memories(), p.policies.memories());
  EXPECT_EQ(next.functions[kF].traffic.totals().requests, 9u);
  next.keeper.counted();
  const JournalEntry again = next.keeper.changes(seen({"a"}));
  EXPECT_EQ(again.accounts.size(), 1u) << "the platform's alone";
  EXPECT_TRUE(again.instances.empty());
}

// Another version may have written it: the bundles then begin as at their first decision.
TEST_F(KeeperTest, WhatPoliciesRememberIsLostWhereItCannotBeReadAndNothingElse) {
  Parts p;
  p.keeper.restore({{"memory fixed", {{"boot_id", "boot"}, {"version", 1}, {"numbers", "none"}}},
                    {"", {{"counted", 5}}}},
                   {});
  EXPECT_TRUE(p.policies.memories().empty());
  EXPECT_EQ(p.counts.to_json().at("counted"), 5);
}

TEST_F(KeeperTest, AnAccountThatCannotBeReadBeginsAtZeroAndStopsNoOther) {
  Parts p;
  p.keeper.restore({{"default/f", {{"starts", "many"}}}, {"", {{"counted", 5}}}}, {});
  EXPECT_EQ(p.accounting.of(kF).starts, 0u);
  EXPECT_EQ(p.counts.to_json().at("counted"), 5);
}

}  // namespace
}  // namespace sluice::control
