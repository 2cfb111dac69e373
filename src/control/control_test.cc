// The loop over a cluster in memory, on a clock that is moved by hand.
#include "control/control.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "control/desired_memory.h"
#include "control/journal_memory.h"
#include "control/local/model_copies.h"
#include "control/local/store.h"
#include "control/requests.h"
#include "control/summary.h"
#include "predict/profile_table.h"
#include "tests/support/archive.h"
#include "tests/support/fake_cluster.h"
#include "tests/support/folder.h"

namespace sluice::control {
namespace {

class ControlTest : public testing::Test {
 protected:
  ControlTest() {
    write_model(dir + "/m");
    open();
  }

  void open() {
    control.reset();
    predictor = {};
    store.emplace(std::move(*Store::open(dir + "/control.db")));
    control = std::move(*Control::open(
        {*store, *store, cluster, predictor, clock, nullptr, &copies}, {.bundle = "fixed"}));
  }
  FunctionSpec spec(int permille = 300) {
    FunctionSpec s;
    s.name.name = "f";
    s.inference().model.path = dir + "/m.pt";
    s.slice = Slice{.sm = kWhole, .quota = {{permille}, {permille}}};
    return s;
  }
  void apply(FunctionSpec s) {
    const auto applied = Requests(*control).apply({std::move(s)}, false, wall);
    ASSERT_TRUE(applied.ok()) << applied.error().message;
  }
  void step(int times = 1) {
    for (int i = 0; i < times; ++i) {
      clock.advance(Seconds(1));
      wall += 1000;
      control->step(wall);
    }
  }
  std::string split() {
    std::string out;
    for (const auto& r : cluster.routes["functions"][0]["revisions"])
      out += "r" + r["number"].dump() + ":" + r["percent"].dump() + " ";
    return out;
  }

  const TemporaryFolder folder;
  const std::string& dir = folder.path;
  ModelCopies copies{dir + "/models"};
  ManualClock clock;
  UnixMillis wall = 1'000'000'000'000;
  FakeCluster cluster{clock};
  std::optional<Store> store;
  predict::ProfileTable predictor;
  std::unique_ptr<Control> control;
};

TEST_F(ControlTest, StartsWhatIsAskedForOnce) {
  apply(spec());
  step(5);
  EXPECT_EQ(cluster.starts, 1);
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  step(5);
  EXPECT_EQ(cluster.starts, 1);
  ASSERT_EQ(cluster.routes["functions"][0]["instances"].size(), 1u);
  EXPECT_EQ(cluster.routes["functions"][0]["instances"][0]["state"], "ready");
}

// A Pod's name has no part that begins with '-'.
TEST_F(ControlTest, AnIdIsCutBeforeADot) {
  FunctionSpec long_named = spec();
  long_named.name.space = std::string(39, 's');
  apply(long_named);
  step(2);
  ASSERT_EQ(cluster.seen.instances.size(), 1u);
  EXPECT_TRUE(cluster.seen.instances[0].instance.id.starts_with(std::string(39, 's') + "-1-"));
}

TEST_F(ControlTest, AStartNamesTheArbiterOfTheFunctionsPolicy) {
  FunctionSpec papers = spec();
  papers.policy = "has-gpu-paper";
  apply(papers);
  step(5);
  ASSERT_EQ(cluster.seen.instances.size(), 1u);
  EXPECT_EQ(cluster.seen.instances[0].instance.arbiter, "window");
}

TEST_F(ControlTest, ALostStartIsNoticedAndAskedForAgain) {
  cluster.lose_starts = 1;
  apply(spec());
  step(3);
  EXPECT_EQ(cluster.starts, 1) << "patience";
  step(12);
  EXPECT_EQ(cluster.starts, 2);
}

TEST_F(ControlTest, AnInstanceThatDiesIsReplacedAndTheReasonKept) {
  apply(spec());
  step(2);
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  step(2);
  cluster.seen.instances[0].instance.state = InstanceState::kGone;
  cluster.seen.instances[0].error = "killed by signal 9";
  step(3);
  EXPECT_EQ(cluster.starts, 2);
  const auto decisions = *store->decisions(FunctionName{.name = "f"}, 10);
  EXPECT_TRUE(std::ranges::any_of(decisions, [](const Decision& d) {
    return d.action == "lost" && d.reason.text.find("signal 9") != std::string::npos;
  }));
}

TEST_F(ControlTest, ARestartAdoptsAndStartsNothing) {
  apply(spec());
  step(2);
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  step(5);
  open();
  step(5);
  EXPECT_EQ(cluster.starts, 1);
  EXPECT_EQ(control->functions().size(), 1u);
  EXPECT_EQ(store->instances()->size(), 1u);
}

TEST_F(ControlTest, AFunctionWhoseRevisionsAreLostIsLeftAloneUntilItIsAppliedAgain) {
  apply(spec());
  FunctionSpec other = spec();
  other.name.name = "g";
  apply(other);
  step(2);
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  step(2);
  {
    Database db = std::move(*Database::open(dir + "/control.db"));
    ASSERT_TRUE(db.run("DELETE FROM revisions WHERE function='default/f'").ok());
    ASSERT_TRUE(db.run("UPDATE accounts SET account='[1]' WHERE key='default/g'").ok());
    ASSERT_TRUE(db.run("UPDATE accounts SET account='{\"used_ns\":7}' WHERE key=''").ok());
  }
  open();
  step(5);
  EXPECT_EQ(control->functions().size(), 1u);
  EXPECT_EQ(cluster.stops, 0);
  EXPECT_EQ(cluster.count(1, InstanceState::kReady), 2) << "also the one of the lost function";
  apply(spec());
  step(5);
  EXPECT_EQ(cluster.starts, 2) << "it has its instance again";
  EXPECT_EQ(cluster.routes["functions"].size(), 2u);
}

TEST_F(ControlTest, NoCounterGoesBackWhenTheLoopIsKilled) {
  apply(spec());
  cluster.load[{.name = "f"}] = 10;
  for (int second = 0; second < 12; ++second) {
    step();
    cluster.all(InstanceState::kStarting, InstanceState::kReady);
    if (second % 4 == 0) cluster.kill({.name = "f"});  // and another starts
    const Account account = control->accounting().of({.name = "f"});
    const TrafficTotals totals = control->functions().at({.name = "f"}).traffic.totals();
    open();
    EXPECT_EQ(control->accounting().of({.name = "f"}), account) << second;
    EXPECT_EQ(control->functions().at({.name = "f"}).traffic.totals().requests, totals.requests);
  }
  EXPECT_GE(control->accounting().of({.name = "f"}).starts, 3u);
  EXPECT_GE(control->functions().at({.name = "f"}).traffic.totals().requests, 100u);
}

TEST_F(ControlTest, ARestartKeepsTheArrivalsOfEveryMinuteThatHasEnded) {
  const FunctionName f{.name = "f"};
  apply(spec());
  cluster.load[f] = 10;
  step(200);
  const auto before = control->functions().at(f).arrivals->per_minute(10);
  ASSERT_GE(before.size(), 3u);
  EXPECT_EQ(before.back(), 600u);
  open();
  step(60);
  const auto after = control->functions().at(f).arrivals->per_minute(10);
  ASSERT_GE(after.size(), 4u);
  EXPECT_TRUE(std::equal(before.end() - 3, before.end(), after.end() - 4));
  EXPECT_LE(control->functions().at(f).arrivals->per_second(600).size(), 60u);
  ASSERT_TRUE(Requests(*control).remove(f, wall).ok());
  EXPECT_TRUE(store->arrivals(f)->empty());
}

TEST_F(ControlTest, AnAccountThatHoldsItsCountersIsTakenOver) {
  apply(spec());
  JournalEntry entry;
  entry.accounts["default/f"] = {{"starts", 7}, {"traffic", {{"totals", {{"requests", 5}}}}}};
  ASSERT_TRUE(store->write(entry).ok());
  for (int restart = 0; restart < 2; ++restart) {
    open();
    EXPECT_EQ(control->accounting().of({.name = "f"}).starts, restart == 0 ? 7u : 8u);
    EXPECT_EQ(control->functions().at({.name = "f"}).traffic.totals().requests, 5u);
    step();
  }
}

TEST_F(ControlTest, AFunctionAppliedAgainCountsFromZero) {
  apply(spec());
  cluster.load[{.name = "f"}] = 10;
  step(3);
  ASSERT_TRUE(Requests(*control).remove({.name = "f"}, wall).ok());
  cluster.load.clear();
  cluster.restart_gateway();
  apply(spec());
  open();
  EXPECT_EQ(control->accounting().of({.name = "f"}), Account{});
  EXPECT_EQ(control->functions().at({.name = "f"}).traffic.totals().requests, 0u);
}

TEST_F(ControlTest, WithoutTheNodeDaemonNothingIsTouched) {
  apply(spec());
  step(2);
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  step(2);
  cluster.node_there = false;
  cluster.seen.instances.clear();
  step(20);
  EXPECT_EQ(cluster.starts, 1);
  EXPECT_EQ(cluster.routes["functions"][0]["instances"].size(), 1u)
      << "the gateway keeps what it knows";
}

TEST_F(ControlTest, ANewRevisionTakesOverWhenItIsReadyAndRollsBack) {
  apply(spec(300));
  step(2);
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  step(2);
  apply(spec(400));
  step(3);
  EXPECT_EQ(split(), "r1:100 r2:0 ") << "the old one serves until the new one is ready";
  EXPECT_EQ(cluster.count(1, InstanceState::kReady), 1);
  EXPECT_EQ(cluster.count(2, InstanceState::kStarting), 1);
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  step(4);
  EXPECT_EQ(split(), "r2:100 ");
  EXPECT_EQ(cluster.count(1, InstanceState::kDraining), 1);
  ASSERT_TRUE(Requests(*control).rollback({.name = "f"}, 0, wall).ok());
  step(3);
  EXPECT_EQ(split(), "r2:100 r1:0 ");
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  step(3);
  EXPECT_EQ(split(), "r1:100 ");
}

TEST_F(ControlTest, AChangedContentIsANewRevisionAndEachStartsFromItsOwnCopy) {
  FunctionSpec s = spec();
  s.inference().model.content = "c1";
  apply(s);
  step(2);
  EXPECT_EQ(cluster.last_model, dir + "/models/c1.pt");
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  EXPECT_EQ(Requests(*control).apply({s}, false, wall)->at(0).what, "unchanged");
  s.inference().model.content = "c2";
  const auto changed = Requests(*control).apply({s}, false, wall);
  EXPECT_EQ(changed->at(0).what, "changed");
  EXPECT_EQ(changed->at(0).difference, std::vector<std::string>{"model's content: c1 -> c2"});
  step(2);
  EXPECT_EQ(cluster.last_model, dir + "/models/c2.pt");
  open();
  EXPECT_EQ(control->contents(), (std::set<std::string>{"c1", "c2"})) << "the store has them";
  cluster.kill({.name = "f"});  // of revision 1, which still serves
  step(3);
  EXPECT_EQ(cluster.last_model, dir + "/models/c1.pt");
}

TEST_F(ControlTest, ARevisionOlderThanCopiesStartsFromItsFileUntilItsFileIsApplied) {
  apply(spec());
  step(2);
  EXPECT_EQ(cluster.last_model, dir + "/m.pt");
  FunctionSpec s = spec();
  s.inference().model.content = "c1";
  EXPECT_EQ(Requests(*control).apply({s}, false, wall)->at(0).difference,
            std::vector<std::string>{"model's content: not known -> c1"});
}

TEST_F(ControlTest, AFailedStartNamesTheUsersFileAndSaysWhetherItsCopyIsGone) {
  FunctionSpec s = spec();
  s.inference().model.content = "c1";
  apply(s);
  const std::string copy = dir + "/models/c1.pt";
  const auto said_of_failure = [&] {
    step(70);  // until it is tried again
    cluster.seen.instances.back().error = copy + ": no such file";
    cluster.all(InstanceState::kStarting, InstanceState::kGone);
    step();
    const auto decisions = store->decisions(s.name, 100);
    for (const Decision& d : *decisions)
      if (d.action == "lost") return d.reason.text;
    return std::string();
  };
  EXPECT_NE(said_of_failure().find("the copy of " + s.inference().model.path +
                                   " is gone: apply the function's file again"),
            std::string::npos);
  std::filesystem::create_directory(dir + "/models");
  std::ofstream(copy) << "weights";
  EXPECT_NE(said_of_failure().find(s.inference().model.path + ": no such file"), std::string::npos);
}

TEST_F(ControlTest, ContentsAreUnknownWhileARevisionInTheStoreCannotBeRead) {
  FunctionSpec s = spec();
  for (const char* content : {"c1", "c2"}) {
    s.inference().model.content = content;
    apply(s);
  }
  open();
  EXPECT_EQ(control->contents(), (std::set<std::string>{"c1", "c2"}));
  control.reset();
  store.reset();
  Database db = std::move(*Database::open(dir + "/control.db"));
  ASSERT_TRUE(db.run("UPDATE revisions SET spec='{' WHERE number=2").ok());
  open();
  EXPECT_EQ(control->contents(), std::nullopt) << "one of two";
  ASSERT_TRUE(db.run("UPDATE revisions SET spec='{'").ok());
  open();
  EXPECT_EQ(control->contents(), std::nullopt) << "the only two";
  apply(s);
  EXPECT_EQ(control->contents(), std::nullopt) << "the rows are in the file still";
}

TEST_F(ControlTest, TenRevisionsAreKeptAndTheServingOne) {
  FunctionSpec s = spec();
  for (int i = 1; i <= 15; ++i) {
    s.inference().model.content = "c" + std::to_string(i);
    apply(s);
    if (i > 2) continue;
    step(2);
    cluster.all(InstanceState::kStarting, InstanceState::kReady);
    step(2);
  }
  const std::set<std::string> kept{"c2",  "c6",  "c7",  "c8",  "c9", "c10",
                                   "c11", "c12", "c13", "c14", "c15"};
  EXPECT_EQ(control->contents(), kept);
  open();
  EXPECT_EQ(control->contents(), kept) << "in the store, too";
  EXPECT_EQ(Requests(*control).rollback({.name = "f"}, 1, wall).error().message,
            "to: 1 is no revision; there are 2, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15");
}

TEST_F(ControlTest, ACanaryStaysBesideTheOldOne) {
  apply(spec(300));
  step(2);
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  step(2);
  FunctionSpec canary = spec(400);
  canary.inference().canary_traffic_percent = 10;
  apply(canary);
  step(3);
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  step(5);
  EXPECT_EQ(split(), "r1:90 r2:10 ");
  EXPECT_EQ(cluster.count(1, InstanceState::kReady), 1);
}

TEST_F(ControlTest, ApplyIsIdempotentAndADryRunChangesNothing) {
  const auto dry = Requests(*control).apply({spec()}, true, wall);
  EXPECT_EQ(dry->at(0).what, "created");
  EXPECT_TRUE(control->functions().empty());
  apply(spec());
  EXPECT_EQ(Requests(*control).apply({spec()}, false, wall)->at(0).what, "unchanged");
  const auto change = Requests(*control).apply({spec(500)}, true, wall);
  EXPECT_EQ(change->at(0).difference,
            (std::vector<std::string>{"slice: 100% × 30%…30% -> 100% × 50%…50%"}));
}

TEST_F(ControlTest, AFunctionKeepsItsKind) {
  FunctionSpec training{.name = {.name = "f"}, .kind = TrainingSpec{.command = {"/bin/train"}}};
  apply(spec());
  const auto refused = Requests(*control).apply({training}, false, wall);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "default/f: kind: TrainingFunction: default/f is there as an InferenceFunction, and a "
            "function keeps its kind. Delete it first, or apply this one under another name");
  EXPECT_FALSE(Requests(*control).apply({training}, true, wall).ok()) << "a dry run says so, too";
  ASSERT_TRUE(Requests(*control).remove({.name = "f"}, wall).ok());
  apply(training);
  EXPECT_FALSE(Requests(*control).apply({spec()}, false, wall).ok()) << "the other way round";
  step(3);
}

// As an earlier version stored it.
TEST_F(ControlTest, AFunctionOfTwoKindsIsSetApartAndTheOthersGoOn) {
  FunctionSpec good = spec();
  good.name.name = "good";
  apply(good);
  apply(spec());
  const FunctionSpec training{.name = {.name = "f"},
                              .kind = TrainingSpec{.command = {"/bin/train"}}};
  ASSERT_TRUE(store->add_revision({training.name, 2, training, wall}, 1).ok());
  open();
  step(3);
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  step(2);
  EXPECT_EQ(cluster.routes["functions"].size(), 1u);
  EXPECT_FALSE(control->functions().contains({.name = "f"}));
  const std::string said =
      "It is set apart: revision 1 is an inference function, revision 2 is a training function.";
  EXPECT_TRUE(said_of(control->apart().at({.name = "f"})).starts_with(said));
  const auto back = Requests(*control).rollback({.name = "f"}, 1, wall);
  ASSERT_FALSE(back.ok());
  EXPECT_NE(back.error().message.find(said), std::string::npos);

  open();
  step(3);
  const auto decisions = *store->decisions(FunctionName{.name = "f"}, 100);
  EXPECT_EQ(std::ranges::count(decisions, "notice", &Decision::action), 1) << "once, not per loop";
  EXPECT_TRUE(decisions.front().reason.text.starts_with(said));

  EXPECT_EQ(Requests(*control).apply({spec()}, false, wall)->at(0).revision, 3)
      << "no instance of an earlier revision is taken for one of it";
  open();
  EXPECT_TRUE(control->apart().empty());
  EXPECT_EQ(control->functions().at({.name = "f"}).stored.revisions.size(), 1u);
}

TEST_F(ControlTest, AFunctionThatIsSetApartCanBeDeleted) {
  apply(spec());
  {
    Database db = std::move(*Database::open(dir + "/control.db"));
    ASSERT_TRUE(db.run("UPDATE revisions SET spec='{'").ok());
  }
  open();
  ASSERT_EQ(control->apart().size(), 1u);
  ASSERT_TRUE(Requests(*control).remove({.name = "f"}, wall).ok());
  open();
  EXPECT_TRUE(control->apart().empty());
}

// Clients would call default/a.b and a/b alike.
TEST_F(ControlTest, TwoFunctionsOfOnePathAreRefused) {
  step();
  FunctionSpec dotted = spec(), spaced = spec();
  dotted.name = {.name = "a.b"};
  spaced.name = {.space = "a", .name = "b"};
  EXPECT_FALSE(Requests(*control).apply({dotted, spaced}, false, wall).ok()) << "in one file";
  apply(dotted);
  apply(dotted);
  const auto refused = Requests(*control).apply({spaced}, false, wall);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find(
                "a/b: metadata.name: clients would call it a.b, which is default/a.b already"),
            std::string::npos)
      << refused.error().message;
}

TEST_F(ControlTest, NothingIsHalfDeployed) {
  step();  // the devices are known
  FunctionSpec broken = spec();
  broken.name.name = "g";
  broken.slice->sm = {300};
  const auto refused = Requests(*control).apply({spec(), broken}, false, wall);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("default/g: slice.sm: 30% is not a supported width"),
            std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(control->functions().empty());
  FunctionSpec greedy = spec();
  greedy.memory = Bytes{1} << 40;
  EXPECT_NE(Requests(*control)
                .apply({greedy}, false, wall)
                .error()
                .message.find("more than any device has"),
            std::string::npos);
}

TEST_F(ControlTest, DeletedFunctionsAreDrained) {
  apply(spec());
  step(2);
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  step(2);
  ASSERT_TRUE(Requests(*control).remove({.name = "f"}, wall).ok());
  step(2);
  EXPECT_EQ(cluster.count(1, InstanceState::kDraining), 1);
  EXPECT_TRUE(cluster.routes["functions"].empty());
}

TEST_F(ControlTest, AFunctionOfADeletedOnesNameHasNoneOfItsLoadOrFailures) {
  const FunctionName f{.name = "f"};
  apply(spec());
  cluster.load[f] = 20;
  cluster.broken_revisions = {1};
  cluster.start_takes = Seconds(1);
  step(10);
  EXPECT_GT(control->functions().at(f).traffic.rate(Seconds(5)), 10);
  cluster.load.clear();
  cluster.broken_revisions.clear();
  ASSERT_TRUE(Requests(*control).remove(f, wall).ok());
  apply(spec());
  const int before = cluster.starts;
  step(2);
  EXPECT_EQ(control->functions().at(f).traffic.totals().requests, 0u);
  EXPECT_EQ(control->functions().at(f).forecast.expected, 0);
  EXPECT_EQ(cluster.starts, before + 1) << "no backoff";
}

TEST_F(ControlTest, WhatGetsNothingSaysWhy) {
  for (const char* name : {"a", "b", "c"}) {  // three whole devices, of two
    FunctionSpec whole = spec(1000);
    whole.name.name = name;
    apply(whole);
  }
  step(3);
  EXPECT_EQ(cluster.starts, 2);
  const auto& last = control->functions().at({.name = "c"});
  EXPECT_EQ(control->decisions().last({.name = "c"}, wall)->action, "unmet");
  EXPECT_FALSE(last.unavailable.empty());
  EXPECT_EQ(cluster.routes["functions"][2]["unavailable"], last.unavailable);
  EXPECT_TRUE(control->functions().at({.name = "a"}).unavailable.empty());
}

TEST_F(ControlTest, TheGatewayIsToldTheRouteOfTheFunctionsPolicy) {
  ASSERT_TRUE(Requests(*control).apply({spec()}, false, wall).ok());
  step(1);
  EXPECT_EQ(cluster.routes["functions"][0]["route"], policy::find_bundle("fixed")->route);
}

// The platform may have chosen another plan than that by which the file was checked.
TEST_F(ControlTest, AJobsSettingsOfAnotherPlanAreWarnedOf) {
  FunctionSpec job{.name = {.name = "j"}, .kind = TrainingSpec{.command = {"/bin/train"}}};
  job.policy_settings = {{"floor", "10%"}};
  EXPECT_THAT(Requests(*control).apply({job}, true, wall)->at(0).warnings, testing::IsEmpty());
  job.training().plan = "fifo";
  EXPECT_THAT(Requests(*control).apply({job}, true, wall)->at(0).warnings,
              ElementsAre(testing::HasSubstr("policy.settings: have no effect under plan fifo")));
}

TEST_F(ControlTest, AnotherPlanOrPolicyIsNoNewRevisionOfAJob) {
  FunctionSpec job{.name = {.name = "j"}, .kind = TrainingSpec{.command = {"/bin/train"}}};
  ASSERT_TRUE(Requests(*control).apply({job}, false, wall).ok());
  job.training().plan = "fapes";
  job.policy = "dilu";
  job.policy_settings = {{"kappa", "0.1"}};
  const auto applied = Requests(*control).apply({job}, false, wall);
  ASSERT_TRUE(applied.ok()) << applied.error().message;
  EXPECT_EQ(applied->at(0).revision, 1);
  EXPECT_EQ(spec_of(control->functions().at(job.name).stored, 1), job);
}

TEST_F(ControlTest, ALeastOfZeroIsWarnedOfWhereOneAlwaysStays) {
  FunctionSpec zero = spec();
  zero.inference().min_replicas = 0;
  const auto kept = Requests(*control).apply({zero}, true, wall);
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(kept->at(0).warnings,
            std::vector<std::string>{
                "minReplicas: 0 is taken as 1 under fixed, which always keeps an instance; these "
                "bundles reach zero: exclusive, kpa, fast-gshare, fast-gshare-paper, "
                "smif, infless"});
  zero.policy = "exclusive";
  EXPECT_TRUE(Requests(*control).apply({zero}, true, wall)->at(0).warnings.empty());
  EXPECT_TRUE(Requests(*control).apply({spec()}, true, wall)->at(0).warnings.empty());
  zero.inference().scale_target = 4;
  EXPECT_TRUE(Requests(*control).apply({zero}, true, wall)->at(0).warnings.empty());
  zero.policy = "has-gpu";
  zero.inference().min_replicas = 1;
  EXPECT_EQ(
      Requests(*control).apply({zero}, true, wall)->at(0).warnings,
      std::vector<std::string>{"scaleTarget: 4 has no effect under has-gpu, which scales by "
                               "rate; these bundles scale by concurrency: exclusive, hpa, kpa"});
  zero.inference().scale_target = 0;
  zero.inference().scale_to_zero_after = Seconds(30);
  EXPECT_EQ(Requests(*control).apply({zero}, true, wall)->at(0).warnings,
            std::vector<std::string>{"scaleToZeroAfter: 30s has no effect with minReplicas: 1; the "
                                     "last instance stops with minReplicas: 0 alone"});
  zero.policy = "exclusive";
  zero.inference().min_replicas = 0;
  EXPECT_TRUE(Requests(*control).apply({zero}, true, wall)->at(0).warnings.empty());
}

// Requests that wait for the function are turned away once it is unavailable.
TEST_F(ControlTest, AFailedStartBesideOneThatComesLeavesTheFunctionAvailable) {
  FunctionSpec two = spec();
  two.inference().min_replicas = 2;
  apply(two);
  step();
  ASSERT_EQ(cluster.count(1, InstanceState::kStarting), 2);
  const auto unavailable = [&] {
    step();
    return !control->functions().at({.name = "f"}).unavailable.empty();
  };
  const auto fail = [&](bool node_fault) {
    ObservedInstance& o = cluster.seen.instances.front();
    o.instance.state = InstanceState::kGone;
    o.error = "no model";
    o.node_fault = node_fault;
  };
  fail(false);
  EXPECT_FALSE(unavailable());
  fail(true);  // the last one, which says nothing about the model
  EXPECT_FALSE(unavailable());
  clock.advance(Seconds(10));
  step();
  ASSERT_GT(cluster.count(1, InstanceState::kStarting), 0);
  while (cluster.count(1, InstanceState::kStarting) > 0) {
    fail(false);
    step();
  }
  EXPECT_TRUE(unavailable());
}

TEST_F(ControlTest, AnUnheldInstanceIsSaidWhenItBeginsAndWhenItIsOver) {
  const auto said = [&] {
    std::vector<std::string> texts;
    const std::vector<Decision> decisions = *store->decisions(FunctionName{.name = "f"}, 100);
    for (const Decision& d : decisions)
      if (d.action == "notice") texts.push_back(d.reason.rule);
    return texts;
  };
  apply(spec());
  step(2);
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  step(2);
  cluster.seen.instances[0].error = "no pages from its node";
  step(3);
  EXPECT_EQ(said(), std::vector<std::string>{"unheld"});
  open();
  step(2);
  EXPECT_EQ(said(), std::vector<std::string>{"unheld"}) << "said before the restart";
  cluster.seen.instances[0].error.clear();
  step(3);
  EXPECT_EQ(said(), (std::vector<std::string>{"held", "unheld"}));
}

TEST(Summary, SaysWhatHappenedAndWhy) {
  const auto of = [](const char* action, Reason reason, const char* fault = "") {
    return summary({.action = action, .reason = std::move(reason), .fault = fault});
  };
  EXPECT_EQ(of("start", {"keep-alive", "One instance always stays: …", {}}),
            "started (one always stays)");
  EXPECT_EQ(of("start", {"keep-alive", "3 instances always stay: …", {}}),
            "started (always stays)");
  EXPECT_EQ(of("resize", {"vertical-up", "", {}}), "resized (more load)");
  EXPECT_EQ(of("resize", {"vertical-up", "", {}}, "no answer"), "not resized (more load)");
  EXPECT_EQ(of("delete", {"asked", "Deleted.", {}}), "deleted");
  EXPECT_EQ(of("start", {"magic", "", {}}), "started (magic)");
  EXPECT_EQ(of("juggle", {"cluster-full", "", {}}), "juggle (no room)") << "of another version";
}

TEST_F(ControlTest, ADecisionThatComesToNothingIsSaidWhenItBeginsAndNowAndThen) {
  const auto said = [&](const std::string& name, const std::string& action) {
    std::vector<Decision> found = *store->decisions(FunctionName{.name = name}, 1000);
    std::erase_if(found, [&](const Decision& d) { return d.action != action; });
    return found;
  };
  const auto pass = [&](Nanos time) {
    for (Nanos at{0}; at < time; at += Seconds(5)) {
      clock.advance(Seconds(5));
      wall += 5000;
      control->step(wall);
    }
  };
  for (const char* name : {"a", "b", "c"}) {  // three whole devices, of two
    FunctionSpec whole = spec(1000);
    whole.name.name = name;
    apply(whole);
  }
  step();
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  pass(Seconds(595));
  EXPECT_EQ(said("c", "unmet").size(), 1u);
  pass(Seconds(10));
  ASSERT_EQ(said("c", "unmet").size(), 2u);
  const Reason again = said("c", "unmet").front().reason;
  EXPECT_NE(again.text.find("It was decided 119 times in the last 600 s."), std::string::npos)
      << again.text;
  EXPECT_EQ(again.numbers.back(), (std::pair<std::string, double>("repeated", 119)));

  cluster.refuse_starts = true;
  ASSERT_TRUE(Requests(*control).remove({.name = "a"}, wall).ok());
  pass(Seconds(5));
  cluster.all(InstanceState::kDraining, InstanceState::kGone);
  pass(Seconds(60));
  ASSERT_EQ(said("c", "start").size(), 1u) << "in vain, each time for the same cause";
  EXPECT_EQ(said("c", "start").front().fault, "No space left on device");
  cluster.refuse_starts = false;
  pass(Seconds(5));
  EXPECT_EQ(said("c", "start").size(), 2u);
}

TEST_F(ControlTest, WhatDoesNotChangeIsDecidedOnceASecondAndRoutedOnce) {
  const auto ticks = [&](int n) {
    for (int i = 0; i < n; ++i) {
      clock.advance(Millis(250));
      wall += 250;
      control->step(wall);
    }
  };
  cluster.refuse_starts = true;
  apply(spec());
  ticks(40);
  EXPECT_GE(cluster.starts, 10);
  EXPECT_LE(cluster.starts, 11) << "ten seconds of the same";
  cluster.refuse_starts = false;
  ticks(4);
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  ticks(4);
  const int tables = cluster.tables;
  ticks(40);
  EXPECT_EQ(cluster.tables, tables);
  // The same name with another file is another function.
  ASSERT_TRUE(Requests(*control).remove({.name = "f"}, wall).ok());
  FunctionSpec other = spec();
  other.inference().timeout = Seconds(7);
  apply(other);
  ticks(1);
  EXPECT_EQ(cluster.routes["functions"][0]["timeout_ms"], 7000.0);
}

TEST_F(ControlTest, WhatOthersChangeInTheDesiredStateIsCarriedOut) {
  MemoryDesiredState desired;
  MemoryJournal journal;
  control =
      std::move(*Control::open({desired, journal, cluster, predictor, clock}, {.bundle = "fixed"}));
  StoredFunction f{.name = spec().name, .newest = 1, .serving = 1};
  f.revisions.push_back({f.name, 1, spec(), wall});
  desired.change(f);
  step(2);
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  EXPECT_EQ(cluster.count(1, InstanceState::kReady), 1);

  f.newest = 2;
  f.revisions.push_back({f.name, 2, spec(400), wall});
  desired.change(f);
  step(2);
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  step(2);
  EXPECT_EQ(desired.functions()->at(0).serving, 2) << "the loop reports it";

  f.revisions.clear();
  desired.change(f);
  step(3);
  EXPECT_EQ(cluster.count(2, InstanceState::kReady), 0);
  EXPECT_TRUE(control->functions().empty());
}

// A full journal loses nothing, and a tick writes it at most once.
TEST_F(ControlTest, ATickWritesItsJournalOnceAndWhatItCouldNotWriteLater) {
  MemoryDesiredState desired;
  MemoryJournal journal;
  control =
      std::move(*Control::open({desired, journal, cluster, predictor, clock}, {.bundle = "fixed"}));
  for (const char* name : {"a", "b"}) {
    FunctionSpec s = spec();
    s.name.name = name;
    apply(s);
  }
  journal.full = true;
  for (int second = 0; second < 5; ++second) {
    const int before = journal.writes;
    step();
    EXPECT_EQ(journal.writes, before + 1);
  }
  EXPECT_EQ(cluster.starts, 2) << "the loop goes on";
  EXPECT_EQ(journal.decisions({}, 100)->size(), 2u) << "those of the applies";
  journal.full = false;
  step();
  EXPECT_EQ(journal.decisions({}, 100)->size(), 4u) << "and the starts";
  EXPECT_EQ(journal.instances()->size(), 2u);
  EXPECT_EQ(journal.accounts()->at("default/a").at("starts"), 1);
}

TEST(Traffic, RestCountsAsTimeInWhichNothingWasAskedFor) {
  ObservedTraffic counters;
  Traffic traffic;
  const auto burst = [&](uint64_t n) {
    counters.requests += n;
    counters.ok += n;
    counters.inferences += n;
    counters.concurrency_seconds += 0.25;
    for (uint64_t i = 0; i < n; ++i) counters.latency.add(Millis(10));
    traffic.step(counters, Millis(250), false);
  };
  burst(10);
  traffic.rest(Millis(250));
  for (int i = 0; i < 16; ++i) traffic.step(counters, Millis(250), false);  // the same counters
  EXPECT_EQ(traffic.rate(Millis(500)), 0);
  EXPECT_NEAR(traffic.rate(Millis(4500)), 10 / 4.5, 1e-9);
  EXPECT_EQ(traffic.latency(0.5, Seconds(60)), counters.latency.quantile(0.5));
  burst(20);
  EXPECT_NEAR(traffic.rate(Millis(500)), 40, 1e-9);
  EXPECT_NEAR(traffic.concurrency_peak(), 0.25 / 0.9, 0.03);
  EXPECT_EQ(traffic.totals().requests, 30u);
  const uint64_t changes = traffic.changes();
  for (int i = 0; i < 10; ++i) traffic.rest(Seconds(10));
  EXPECT_EQ(traffic.rate(Seconds(60)), 0);
  EXPECT_EQ(traffic.concurrency_peak(), 0);
  EXPECT_EQ(traffic.latency(0.5, Seconds(60)), Nanos(0));
  EXPECT_EQ(traffic.changes(), changes);
}

TEST_F(ControlTest, CostIsWhatIsHeldAndWhatIsUsedAboveIt) {
  apply(spec(300));
  step(2);
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  step(1);
  const double before = control->accounting().of({.name = "f"}).cost;
  cluster.seen.instances[0].used += Millis(500);  // above its 30 % of the second
  step(1);
  const double after = control->accounting().of({.name = "f"}).cost;
  EXPECT_NEAR(after - before, 0.5, 1e-9) << "0.3 held, 0.2 above, at 1 a second";
}

// Two devices of different prices, half of the time of each.
TEST(Accounting, AnInstanceOfTwoPartsCostsWhatItHoldsOnBothDevices) {
  const Slice half{.sm = kWhole, .quota = {{500}, kWhole}};
  ObservedInstance pair;
  pair.instance = {.id = "pair",
                   .function = {.name = "f"},
                   .state = InstanceState::kReady,
                   .parts = {{"a", half, {}}, {"b", half, {}}}};
  const std::vector<Device> devices{{.id = "a", .price_per_hour = 3600},
                                    {.id = "b", .price_per_hour = 7200}};
  Accounting accounting;
  accounting.step({pair}, devices, Seconds(2));
  Account account = accounting.of({.name = "f"});
  EXPECT_NEAR(account.slice_seconds, 2, 1e-9) << "a second on each device";
  EXPECT_NEAR(account.cost, 1 + 2, 1e-9);
  pair.used = Seconds(3);  // of the 4 that both devices had in these 2 s
  accounting.step({pair}, devices, Seconds(2));
  account = accounting.of({.name = "f"});
  EXPECT_NEAR(account.used_seconds, 3, 1e-9);
  EXPECT_NEAR(account.cost, 3 + 3 + 1.5, 1e-9) << "a second above what is held, at the mean price";
  EXPECT_EQ(accounting.used_share("pair"), Share{750});
}

// Use is that of the time before a step, so a limit that was cut in it counts as it was.
TEST(Accounting, UseStandsBesideTheLargestLimitOfItsTimeOverAllParts) {
  const auto part = [](const char* device, int limit) {
    return Part{device, {.sm = kWhole, .quota = {{100}, {limit}}}, {}};
  };
  ObservedInstance pair;
  pair.instance = {.id = "pair", .parts = {part("a", 300), part("b", 500)}};
  Accounting accounting;
  accounting.step({pair}, {}, Seconds(1));
  EXPECT_EQ(accounting.used_limit("pair"), Share{400});
  pair.instance.parts = {part("a", 100), part("b", 100)};
  accounting.step({pair}, {}, Seconds(1));
  EXPECT_EQ(accounting.used_limit("pair"), Share{400}) << "cut within the second";
  accounting.step({pair}, {}, Seconds(1));
  EXPECT_EQ(accounting.used_limit("pair"), Share{100});
}

TEST_F(ControlTest, AProgramOfSomebodysOwnHasItsShareAndCostsNoFunctionAnything) {
  ObservedInstance program;
  program.foreign = true;
  program.instance = {.id = "train",
                      .function = {.name = "f"},
                      .state = InstanceState::kReady,
                      .parts = {{"cpu0", {.sm = kWhole, .quota = {kWhole, kWhole}}, {}}}};
  cluster.seen.instances = {program};
  step(1);
  cluster.seen.instances[0].used += Millis(400);
  step(1);
  EXPECT_EQ(control->accounting().used_share("train"), Share{400});
  EXPECT_EQ(control->accounting().of({.name = "f"}).cost, 0);
}

// Returns the median for one request that the loop's policies use; 0 if unknown.
Nanos known(const Predictor& predictor, int revision) {
  const auto p = predictor.predict(
      {.function = {.name = "f"}, .revision = revision, .device = {"cpu/1000m"}}, {});
  return p ? p->median : Nanos(0);
}

std::vector<MeasuredPoint> alone(Nanos median) {
  return {{.median = median}};
}

TEST_F(ControlTest, AProfileWithoutATypeIsOfTheTypeOfThisNodesDevices) {
  ASSERT_TRUE(store->save_profile({.model = dir + "/m.pt", .points = alone(Millis(9))}).ok());
  open();
  apply(spec());
  EXPECT_EQ(known(predictor, 1), Nanos(0)) << "no device was seen yet";
  step();
  EXPECT_EQ(known(predictor, 1), Millis(9));
  open();
  step();
  EXPECT_EQ(known(predictor, 1), Millis(9));
}

TEST_F(ControlTest, ARevisionHasTheProfileOfItsOwnContentAndType) {
  step();
  FunctionSpec s = spec();
  s.inference().model.content = "aa";
  const auto measured = [&](const char* content, const char* type, Nanos median) {
    EXPECT_TRUE(control
                    ->set_profile({.model = dir + "/m.pt",
                                   .content = content,
                                   .device = {type},
                                   .points = alone(median)})
                    .ok());
  };
  measured("aa", "cpu/1000m", Millis(9));
  measured("aa", "cpu/250m", Millis(40));
  apply(s);
  EXPECT_EQ(known(predictor, 1), Millis(9));
  s.inference().model.content = "bb";  // the file was replaced
  apply(s);
  EXPECT_EQ(known(predictor, 1), Millis(9));
  EXPECT_EQ(known(predictor, 2), Nanos(0));
  measured("bb", "cpu/1000m", Millis(5));
  EXPECT_EQ(known(predictor, 2), Millis(5));
  // Another function of the same name, whose model was not measured.
  ASSERT_TRUE(Requests(*control).remove({.name = "f"}, wall).ok());
  s.inference().model.content = "cc";
  apply(s);
  EXPECT_EQ(known(predictor, 1), Nanos(0));
  EXPECT_EQ(known(predictor, 2), Nanos(0));
}

TEST_F(ControlTest, AnEstimateByWhichNothingIsInTimeTeachesNothing) {
  step();
  FunctionSpec s = spec();
  s.inference().slo.latency = Millis(14);
  apply(s);
  Profile estimate{.model = dir + "/m.pt",
                   .device = {"cpu/1000m"},
                   .points = alone(Millis(10)),
                   .estimated = 0.5};
  ASSERT_TRUE(control->set_profile(estimate).ok());
  EXPECT_EQ(known(predictor, 1), Nanos(0)) << "15 ms, to be safe";
  estimate.estimated = 0.2;
  ASSERT_TRUE(control->set_profile(estimate).ok());
  EXPECT_EQ(known(predictor, 1), Millis(10));
}

// An instance with 30 % of a device answers 20 requests a second, which takes all of it: 15 ms
// each.
TEST_F(ControlTest, AnEstimateIsCorrectedByWhatItsInstancesNeed) {
  step();
  const Profile estimate{.model = dir + "/m.pt",
                         .device = {"cpu/1000m"},
                         .points = alone(Millis(5)),
                         .estimated = 0.5};
  ASSERT_TRUE(control->set_profile(estimate).ok());
  apply(spec(300));
  step(2);
  cluster.all(InstanceState::kStarting, InstanceState::kReady);
  cluster.load[{.name = "f"}] = 20;
  step();
  const auto serve = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      auto& answers = cluster.seen.gateways[0].traffic[0].instances;
      answers.resize(1);
      answers[0].instance = cluster.seen.instances[0].instance.id;
      answers[0].answered = answers[0].inferences += 20;
      step();
    }
  };
  serve(55);  // a look that corrects it, and two that agree
  EXPECT_NEAR(millis(known(predictor, 1)), 15, 1);
  EXPECT_EQ(control->profiles().all().begin()->second.estimated, kRefined);
  const auto decisions = *store->decisions(FunctionName{.name = "f"}, 10);
  EXPECT_TRUE(std::ranges::any_of(decisions, [](const Decision& d) {
    return d.action == "profile" && d.reason.rule == "refined";
  }));
  // A measurement takes its place. It is corrected too, at the second look.
  const Profile measured{
      .model = dir + "/m.pt", .device = {"cpu/1000m"}, .points = alone(Millis(9))};
  ASSERT_TRUE(control->set_profile(measured).ok());
  EXPECT_TRUE(control->set_profile(estimate).ok());
  EXPECT_EQ(known(predictor, 1), Millis(9));
  serve(22);
  EXPECT_NEAR(millis(known(predictor, 1)), 15, 1);
  const Profile& kept = control->profiles().all().begin()->second;
  EXPECT_NEAR(kept.live, 15.0 / 9, 0.1);
  EXPECT_EQ(kept.points, measured.points);
  // With an objective that it could not meet it would not be served at all.
  FunctionSpec s = spec(300);
  s.inference().slo.latency = Millis(12);
  apply(s);
  EXPECT_EQ(known(predictor, 2), Millis(9));
}

}  // namespace
}  // namespace sluice::control
