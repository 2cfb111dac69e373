// The behaviour of every adapter of the journal and of the desired state: one suite each, run
// against all.
#include <gtest/gtest.h>

#include <memory>

#include "control/desired_memory.h"
#include "control/journal_memory.h"
#include "control/local/store.h"
#include "tests/support/folder.h"

namespace sluice::control {
namespace {

const FunctionName kF{.name = "f"}, kG{.name = "g"};

// A port in memory, and the same in a SQLite file.
template <class Port, class InMemory>
class PortTest : public testing::TestWithParam<const char*> {
 protected:
  PortTest() { reopen(); }
  // Another loop opens the state that this one left.
  void reopen() {
    store.reset();
    if (GetParam() == std::string_view("sqlite")) {
      store = std::make_unique<Store>(std::move(*Store::open(folder.path + "/control.db")));
      port = store.get();
    }
  }
  const TemporaryFolder folder;
  InMemory in_memory;
  std::unique_ptr<Store> store;
  Port* port = &in_memory;
};
constexpr auto kName = [](const auto& info) { return std::string(info.param); };

// ---- the journal -------------------------------------------------------------------------------

class JournalConformance : public PortTest<Journal, MemoryJournal> {
 protected:
  void write(JournalEntry entry) { ASSERT_TRUE(port->write(entry).ok()); }
  static Decision decision(const FunctionName& f, const std::string& action,
                           const std::string& subject, const std::string& rule = "r") {
    return {.at = 5,
            .function = f,
            .action = action,
            .subject = subject,
            .detail = {{"k", 1}},
            .reason = {rule, "because", {{"x", 1}}}};
  }
};
INSTANTIATE_TEST_SUITE_P(Adapters, JournalConformance, testing::Values("memory", "sqlite"), kName);

TEST_P(JournalConformance, DecisionsAreNumberedInOrderAndListedNewestFirst) {
  JournalEntry entry{.decisions = {decision(kF, "start", "i"), decision(kG, "start", "j")}};
  ASSERT_TRUE(port->write(entry).ok());
  EXPECT_GT(entry.decisions[0].number, 0);
  EXPECT_GT(entry.decisions[1].number, entry.decisions[0].number);
  write({.decisions = {decision(kF, "stop", "i")}});
  reopen();
  const auto all = *port->decisions({}, 10);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].action, "stop");
  EXPECT_EQ(all[2].number, entry.decisions[0].number);
  EXPECT_EQ(all[2].reason, entry.decisions[0].reason);
  EXPECT_EQ(all[2].detail, entry.decisions[0].detail);
  EXPECT_EQ(port->decisions(kF, 10)->size(), 2u);
  EXPECT_EQ(port->decisions(kF, 1)->at(0).action, "stop");
}

TEST_P(JournalConformance, TheNewestNoticeOfEachSubjectIsKnown) {
  write({.decisions = {decision(kF, "notice", "i", "unheld"), decision(kF, "notice", "i", "held"),
                       decision(kF, "resize", "i", "more"), decision(kF, "drain", "cpu0", "fault"),
                       decision(kF, "resize", "j", "more")}});
  reopen();
  const auto notices = *port->notices();
  EXPECT_EQ(notices.size(), 2u);
  EXPECT_EQ(notices.at("i").rule, "held");
  EXPECT_EQ(notices.at("cpu0").rule, "fault");
}

TEST_P(JournalConformance, AnAccountReplacesTheOneBeforeAndOthersStay) {
  write({.accounts = {{"default/f", {{"n", 1}}}, {"", {{"n", 2}}}}});
  write({.accounts = {{"default/f", {{"n", 3}}}}});
  reopen();
  EXPECT_EQ(*port->accounts(), (Accounts{{"default/f", {{"n", 3}}}, {"", {{"n", 2}}}}));
}

TEST_P(JournalConformance, InstancesAreThoseThatHaveNotEnded) {
  const auto instance = [](const char* id, int64_t pid) {
    return StoredInstance{{.id = id, .function = kF, .parts = {{"cpu0", {}, {}}}}, "boot", pid, 7};
  };
  write({.instances = {instance("b", 1), instance("a", 1), instance("c", 1)}});
  write({.instances = {instance("b", 2)}, .ended = {"c", "unknown"}});
  reopen();
  EXPECT_EQ(*port->instances(), (std::vector{instance("a", 1), instance("b", 2)}));
}

TEST_P(JournalConformance, RatesAreOfAFunctionAndSinceASecond) {
  write({.rates = {{kF, 101, 2.5, 1, 2, 3}, {kG, 101, 9, 0, 0, 0}}});
  write({.rates = {{kF, 102, 4, 0, 0, 0}}});
  reopen();
  EXPECT_EQ(*port->rates(kF, 101),
            (std::vector<RateSample>{{kF, 101, 2.5, 1, 2, 3}, {kF, 102, 4, 0, 0, 0}}));
  EXPECT_EQ(port->rates(kF, 102)->size(), 1u);
}

TEST_P(JournalConformance, ArrivalsAreHoursOfAFunctionAndTheNewestReplaceTheOldest) {
  const auto hour = [](const FunctionName& f, int64_t number, uint32_t arrivals) {
    ArrivalHour h{.function = f, .hour = number};
    h.arrivals[7] = arrivals;
    h.arrivals[59] = UINT32_MAX;
    return h;
  };
  constexpr int64_t kFirst = 480'000;
  write({.arrivals = {hour(kF, kFirst, 1), hour(kF, kFirst + 1, 2), hour(kG, kFirst, 9)}});
  write({.arrivals = {hour(kF, kFirst + 1, 3)}});
  reopen();
  EXPECT_EQ(*port->arrivals(kF), (std::vector{hour(kF, kFirst, 1), hour(kF, kFirst + 1, 3)}));
  EXPECT_EQ(*port->arrivals(kG), std::vector{hour(kG, kFirst, 9)});
  write({.arrivals = {hour(kF, kFirst + 1 + ArrivalHistory::kHours, 4)}});
  EXPECT_EQ(*port->arrivals(kF), (std::vector{hour(kF, kFirst + 1, 3),
                                              hour(kF, kFirst + 1 + ArrivalHistory::kHours, 4)}));
  ASSERT_TRUE(port->forget(kF).ok());
  reopen();
  EXPECT_TRUE(port->arrivals(kF)->empty());
  EXPECT_EQ(port->arrivals(kG)->size(), 1u);
}

TEST_P(JournalConformance, AForgottenFunctionHasNoCountersAndKeepsItsDecisions) {
  write({.decisions = {decision(kF, "delete", "f")},
         .rates = {{kF, 101, 1, 0, 0, 0}, {kG, 101, 1, 0, 0, 0}},
         .accounts = {{"default/f", {{"n", 1}}},
                      {"default/f traffic", {{"n", 1}}},
                      {"default/f2", {{"n", 1}}}}});
  ASSERT_TRUE(port->forget(kF).ok());
  reopen();
  EXPECT_EQ(*port->accounts(), (Accounts{{"default/f2", {{"n", 1}}}}));
  EXPECT_TRUE(port->rates(kF, 0)->empty());
  EXPECT_EQ(port->rates(kG, 0)->size(), 1u);
  EXPECT_EQ(port->decisions(kF, 10)->size(), 1u);
}

// ---- the desired state -------------------------------------------------------------------------

class DesiredStateConformance : public PortTest<DesiredState, MemoryDesiredState> {
 protected:
  static Revision revision(int number, int permille = 100) {
    FunctionSpec s{.name = kF};
    s.inference().model.path = "/m.pt";
    s.slice = Slice{.sm = kWhole, .quota = {{permille}, {permille}}};
    return {kF, number, s, number * 10};
  }
  void add(int number, int serving) {
    ASSERT_TRUE(port->add_revision(revision(number), serving).ok());
  }
  StoredFunction only() {
    const auto all = *port->functions();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? StoredFunction{} : all[0];
  }
};
INSTANTIATE_TEST_SUITE_P(Adapters, DesiredStateConformance, testing::Values("memory", "sqlite"),
                         kName);

TEST_P(DesiredStateConformance, ARevisionThatIsAddedIsTheNewest) {
  add(1, 1);
  add(2, 1);
  reopen();
  const StoredFunction f = only();
  EXPECT_EQ(f.newest, 2);
  EXPECT_EQ(f.serving, 1);
  EXPECT_TRUE(f.complete);
  EXPECT_EQ(f.revisions, (std::vector{revision(1), revision(2)}));
}

TEST_P(DesiredStateConformance, ASpecificationIsReplacedInPlace) {
  add(1, 1);
  ASSERT_TRUE(port->replace_spec(revision(1, 700)).ok());
  Revision unknown = revision(1);
  unknown.function = kG;
  ASSERT_TRUE(port->replace_spec(unknown).ok());
  reopen();
  EXPECT_EQ(only().revisions, std::vector{revision(1, 700)});
}

TEST_P(DesiredStateConformance, OldRevisionsAreForgottenButForTheServingOne) {
  for (int n = 1; n <= 5; ++n) add(n, 2);
  ASSERT_TRUE(port->forget_revisions(kF, 4, 2).ok());
  reopen();
  EXPECT_EQ(only().revisions, (std::vector{revision(2), revision(4), revision(5)}));
}

TEST_P(DesiredStateConformance, TheLoopReportsWhatServes) {
  add(1, 1);
  add(2, 1);
  ASSERT_TRUE(port->set_revisions(kF, 2, 2, {1, 2}).ok());
  ASSERT_TRUE(port->set_revisions(kG, 2, 2, {}).ok()) << "a function that is gone";
  add(3, 2);
  reopen();
  EXPECT_EQ(only().serving, 2);
  EXPECT_EQ(only().served, (ServingHistory{1, 2})) << "an applied revision leaves it";
}

TEST_P(DesiredStateConformance, ARemovedFunctionIsGone) {
  add(1, 1);
  ASSERT_TRUE(port->remove_function(kF).ok());
  ASSERT_TRUE(port->remove_function(kG).ok());
  reopen();
  EXPECT_TRUE(port->functions()->empty());
}

TEST_P(DesiredStateConformance, ATransactionThatFailsHasChangedNothing) {
  add(1, 1);
  const auto outcome = port->transaction([&]() -> Result<void> {
    SLUICE_TRY(port->add_revision(revision(2), 1));
    return Error{ErrorKind::kInvalid, "the second function was refused"};
  });
  EXPECT_FALSE(outcome.ok());
  reopen();
  EXPECT_EQ(only().newest, 1);
  EXPECT_EQ(only().revisions.size(), 1u);
}

TEST_P(DesiredStateConformance, WhatTheLoopChangesIsNoChangeOfOthers) {
  add(1, 1);
  ASSERT_TRUE(port->remove_function(kF).ok());
  EXPECT_TRUE(port->changes().empty());
}

TEST_P(DesiredStateConformance, AProfileIsOfAModel) {
  const Profile profile{.model = "/m.pt",
                        .content = "aa",
                        .device = {"cpu/500m"},
                        .function = kF,
                        .points = {{{1, {1000}, {500}}, Millis(2), Millis(3), 10}}};
  ASSERT_TRUE(port->save_profile(profile).ok());
  reopen();
  const Profiles profiles = *port->profiles();
  ASSERT_NE(profiles.find({.path = "/m.pt", .content = "aa"}, {"cpu/500m"}), nullptr);
  EXPECT_EQ(*profiles.find({.path = "/m.pt", .content = "aa"}, {"cpu/500m"}), profile);
}

}  // namespace
}  // namespace sluice::control
