// Timelines: what the loop does to a cluster with a saboteur in it, second by second, in a small
// language. A line is "SECOND VERB WORDS". Events happen before the loop's tick of that second;
// expectations are checked after it.
//
//   bundle NAME                the platform's from now on, four ticks a second (else `fixed`, one)
//   measured MILLISECONDS      what one request takes the functions' model on a whole device
//   apply F SHARE [canary N|zero|set NAME VALUE]  a revision that wants SHARE of a device; "any":
//   its file states
//                              none; "zero": minReplicas is 0
//   rollback F · delete F · drain DEVICE · fault DEVICE
//   rollback-refused F TEXT    with a message that begins so
//   load F RATE                requests a second from now on
//   invoke F N                 so many requests, at once
//   malformed F                its requests are answered with 400 from now on
//   each F N                   a request of F brings so many inferences
//   hold F · release F         its instances have a request in hand that does not end; it ends
//   hang F                     its ready instances stop answering; their requests are overdue now
//   lose starts|stops|resizes N · repeat starts · start-takes SECONDS
//   break REVISION · mend REVISION · kill F                  one ready instance of it
//   down                       the platform is ended in order, and its loop starts again
//   node away|back|restarts · gateway away|back|restarts · control restarts
//   expect F r1:ready …        all instances of it, by revision; "nothing"
//   on F cpu0 …                the devices of its instances
//   holds F at-least|at-most PERMILLE  of a device's time, its ready instances together
//   servable F                 the gateway is not told to refuse its requests
//   unmet F TEXT               the reason of its last unmet demand has this in it
//   split F r1:90 r2:10        what the gateway was told
//   said F RULE                a decision about it with that rule
//   unsaid F RULE              no decision about it with that rule
//   starts|stops N             so many were asked for, up to now
//   requests F N
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "control/desired_memory.h"
#include "control/journal_memory.h"
#include "control/requests.h"
#include "predict/profile_table.h"
#include "tests/support/archive.h"
#include "tests/support/fake_cluster.h"
#include "tests/support/folder.h"

namespace sluice::control {
namespace {

class Timeline : public testing::Test {
 protected:
  Timeline() {
    write_model(folder_.path + "/m");
    cluster_.start_takes = Seconds(2);
    cluster_.drain_takes = Seconds(3);
    open();
  }

  void play(const std::string& script) {
    std::istringstream lines(script);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      int second = 0;
      if (!(words >> second)) continue;
      while (second_ < second) tick();
      std::string verb;
      words >> verb;
      if (!happens(verb, words) && !holds(verb, words)) ADD_FAILURE() << "not understood: " << line;
      if (HasFailure()) FAIL() << "in line: " << line << "\n" << everything();
    }
  }

  void open() {
    control_.reset();
    predictor_ = {};
    control_ = std::move(*Control::open({desired_, journal_, cluster_, predictor_, clock_},
                                        {.bundle = bundle_, .give_up_only = give_up_only_}));
  }

  // Events of a second come first; the first expectation after them runs the tick.
  void tick() {
    for (int n = 0; n < ticks_a_second_; ++n) {
      if (!ticked_) control_->step(wall_);
      ticked_ = false;
      clock_.advance(Millis(1000 / ticks_a_second_));
      wall_ += 1000 / ticks_a_second_;
    }
    ++second_;
  }

  bool happens(const std::string& verb, std::istringstream& words) {
    std::string a, b;
    if (verb == "apply") return apply(words);
    if (verb == "rollback") {
      words >> a;
      const auto done = Requests(*control_).rollback({.name = a}, 0, wall_);
      EXPECT_TRUE(done.ok()) << done.error().message;
    } else if (verb == "delete") {
      words >> a;
      EXPECT_TRUE(Requests(*control_).remove({.name = a}, wall_).ok());
    } else if (verb == "drain") {
      words >> a;
      EXPECT_TRUE(Requests(*control_).set_drained(a, true, wall_).ok());
    } else if (verb == "bundle") {
      words >> bundle_;
      ticks_a_second_ = 4;
      open();
    } else if (verb == "measured") {
      int ms = 0;
      words >> ms;
      measure(Millis(ms));
    } else if (verb == "invoke") {
      int n = 0;
      words >> a >> n;
      cluster_.load.try_emplace({.name = a});
      cluster_.once[{.name = a}] = n;
    } else if (verb == "malformed") {
      words >> a;
      cluster_.malformed.insert({.name = a});
    } else if (verb == "each") {
      int n = 0;
      words >> a >> n;
      cluster_.each[{.name = a}] = n;
    } else if (verb == "fault") {
      words >> a;
      cluster_.faults[a] = "Xid 79";
    } else if (verb == "load") {
      double rate = 0;
      words >> a >> rate;
      cluster_.load[{.name = a}] = rate;
    } else if (verb == "hold" || verb == "release") {
      words >> a;
      verb == "hold" ? (void)cluster_.held.insert({.name = a})
                     : (void)cluster_.held.erase({.name = a});
    } else if (verb == "lose") {
      int n = 0;
      words >> a >> n;
      (a == "starts"  ? cluster_.lose_starts
       : a == "stops" ? cluster_.lose_stops
                      : cluster_.lose_resizes) = n;
    } else if (verb == "repeat") {
      cluster_.repeat_starts = true;
    } else if (verb == "start-takes") {
      int seconds = 0;
      words >> seconds;
      cluster_.start_takes = Seconds(seconds);
    } else if (verb == "break" || verb == "mend") {
      int revision = 0;
      words >> revision;
      verb == "break" ? (void)cluster_.broken_revisions.insert(revision)
                      : (void)cluster_.broken_revisions.erase(revision);
    } else if (verb == "kill") {
      words >> a;
      cluster_.kill({.name = a});
    } else if (verb == "hang") {
      words >> a;
      cluster_.hang({.name = a});
    } else if (verb == "node") {
      words >> a;
      a == "restarts" ? cluster_.restart_node() : (void)(cluster_.node_there = a == "back");
    } else if (verb == "gateway") {
      words >> a;
      a == "restarts" ? cluster_.restart_gateway() : (void)(cluster_.gateway_there = a == "back");
    } else if (verb == "down") {
      cluster_.down();
      open();
    } else if (verb == "control") {
      open();
    } else {
      return false;
    }
    return true;
  }

  bool apply(std::istringstream& words) {
    std::string name, share, word;
    words >> name >> share;
    FunctionSpec spec;
    spec.name.name = name;
    spec.inference().model.path = folder_.path + "/m.pt";
    spec.inference().slo.latency = Millis(400);
    if (share != "any") {
      const Share quota{std::stoi(share) * 10};
      spec.slice = Slice{.sm = kWhole, .quota = {quota, quota}};
    }
    words >> word;
    if (word == "canary") words >> spec.inference().canary_traffic_percent;
    if (word == "zero") spec.inference().min_replicas = 0;
    if (word == "set") {
      std::string value;
      words >> word >> value;
      spec.policy_settings[word] = value;
      spec.policy = bundle_;
    }
    const auto done = Requests(*control_).apply({spec}, false, wall_);
    EXPECT_TRUE(done.ok()) << done.error().message;
    return true;
  }

  void measure(Nanos alone) {
    Profile profile{.model = folder_.path + "/m.pt", .device = {"cpu/1000m"}};
    for (const int permille : {250, 500, 1000}) {
      const Nanos takes = alone * 1000 / permille;
      profile.points.push_back({{1, kWhole, {permille}}, takes, takes, 1 / seconds(takes)});
    }
    EXPECT_TRUE(control_->set_profile(profile).ok());
  }

  bool holds(const std::string& verb, std::istringstream& words) {
    if (!ticked_) control_->step(wall_), ticked_ = true;
    std::string f;
    if (verb == "starts" || verb == "stops") {
      int n = 0;
      words >> n;
      EXPECT_EQ(verb == "starts" ? cluster_.starts : cluster_.stops, n) << verb;
      return true;
    }
    words >> f;
    std::string rest;
    std::getline(words >> std::ws, rest);
    if (verb == "expect") {
      EXPECT_EQ(instances(f), rest);
    } else if (verb == "split") {
      EXPECT_EQ(split(f), rest);
    } else if (verb == "said" || verb == "unsaid") {
      EXPECT_EQ(said(f, rest), verb == "said") << f << ": " << rest;
    } else if (verb == "holds") {
      const int permille = std::stoi(rest.substr(rest.find(' ') + 1));
      if (rest.starts_with("at-least")) {
        EXPECT_GE(held(f), permille);
      } else {
        EXPECT_LE(held(f), permille);
      }
    } else if (verb == "on") {
      EXPECT_EQ(devices(f), rest);
    } else if (verb == "servable") {
      EXPECT_EQ(control_->functions().at({.name = f}).unavailable, "");
    } else if (verb == "unmet") {
      EXPECT_NE(unmet(f).find(rest), std::string::npos) << unmet(f);
    } else if (verb == "rollback-refused") {
      const auto done = Requests(*control_).rollback({.name = f}, 0, wall_);
      EXPECT_TRUE(!done.ok() && done.error().message.starts_with(rest));
    } else if (verb == "requests") {
      EXPECT_EQ(control_->functions().at({.name = f}).traffic.totals().requests, std::stoul(rest));
    } else {
      return false;
    }
    return true;
  }

  std::string instances(const std::string& f) const {
    static const std::map<InstanceState, std::string> kNames = {
        {InstanceState::kStarting, "starting"},
        {InstanceState::kReady, "ready"},
        {InstanceState::kDraining, "draining"},
        {InstanceState::kGone, "gone"}};
    std::vector<std::string> all;
    for (const ObservedInstance& o : cluster_.seen.instances)
      if (o.instance.function.name == f)
        all.push_back("r" + std::to_string(o.instance.revision) + ":" +
                      kNames.at(o.instance.state));
    std::ranges::sort(all);
    std::string text;
    for (const std::string& one : all) text += (text.empty() ? "" : " ") + one;
    return text.empty() ? "nothing" : text;
  }

  std::string devices(const std::string& f) const {
    std::string text;
    for (const ObservedInstance& o : cluster_.seen.instances)
      if (o.instance.function.name == f) text += (text.empty() ? "" : " ") + o.instance.device();
    return text;
  }

  int held(const std::string& f) const {
    int permille = 0;
    for (const ObservedInstance& o : cluster_.seen.instances)
      if (o.instance.function.name == f && o.instance.state == InstanceState::kReady)
        permille += o.instance.slice().quota.request.permille;
    return permille;
  }

  std::string unmet(const std::string& f) {
    const auto decisions = journal_.decisions(FunctionName{.name = f}, 1000);
    const auto last = std::ranges::find(*decisions, "unmet", &Decision::action);
    return last == decisions->end() ? "nothing was unmet" : last->reason.text;
  }

  std::string split(const std::string& f) const {
    std::string text;
    for (const auto& function : cluster_.routes["functions"])
      if (function["name"] == "default/" + f)
        for (const auto& r : function["revisions"])
          text += (text.empty() ? "r" : " r") + r["number"].dump() + ":" + r["percent"].dump();
    return text;
  }

  bool said(const std::string& f, const std::string& rule) {
    const auto decisions = journal_.decisions(FunctionName{.name = f}, 1000);
    return std::ranges::any_of(*decisions,
                               [&](const Decision& d) { return d.reason.rule == rule; });
  }

  std::string everything() {
    std::string text;
    const auto decisions = journal_.decisions(std::nullopt, 50);
    for (const Decision& d : *decisions)
      text += std::to_string((d.at - kStart) / 1000) + "s " + to_string(d.function) + " " +
              d.action + " " + d.subject + ": " + d.reason.rule + ": " + d.reason.text + " " +
              d.fault + "\n";
    return text;
  }

  static constexpr UnixMillis kStart = 1'000'000'000'000;
  const TemporaryFolder folder_;
  ManualClock clock_;
  UnixMillis wall_ = kStart;
  std::string bundle_ = "fixed";
  bool give_up_only_ = true;
  int ticks_a_second_ = 1;
  int second_ = 0;
  bool ticked_ = false;
  FakeCluster cluster_{clock_};
  MemoryDesiredState desired_;
  MemoryJournal journal_;
  predict::ProfileTable predictor_;
  std::unique_ptr<Control> control_;
};

TEST_F(Timeline, AFunctionComesUpIsRolledOverAndRolledBack) {
  play(R"(
    0 apply f 30%
    1 expect f r1:starting
    4 expect f r1:ready
    4 split f r1:100
    5 apply f 40%
    6 expect f r1:ready r2:starting
    6 split f r1:100 r2:0
    9 split f r2:100
    9 expect f r1:draining r2:ready
   14 expect f r2:ready
   15 rollback f
   16 split f r2:100 r1:0
   20 split f r1:100
   26 expect f r1:ready
   26 starts 3
  )");
}

// Revision 2 is a canary that is abandoned for revision 3; revision 4 never starts.
TEST_F(Timeline, ARollbackGoesToWhatServed) {
  play(R"(
    0 apply f 30%
    5 split f r1:100
    6 apply f 40% canary 10
   10 split f r1:90 r2:10
   11 apply f 50%
   15 split f r3:100
   20 control restarts
   21 rollback f
   26 split f r1:100
   27 break 4
   27 apply f 20%
   60 said f rollout-failed
   61 rollback f
   62 split f r1:100
  )");
}

TEST_F(Timeline, ARollbackWithoutEarlierServingIsRefused) {
  play(R"(
    0 break 1
    0 apply f 30%
   10 apply f 40%
   15 split f r2:100
   16 rollback-refused f to: no other revision has served; there are 1, 2
  )");
}

// Each rollback goes one further back.
TEST_F(Timeline, RollbacksGoBackOneAfterTheOther) {
  play(R"(
    0 apply f 30%
    5 apply f 40%
   10 apply f 50%
   15 split f r3:100
   16 rollback f
   21 split f r2:100
   22 rollback f
   27 split f r1:100
   28 rollback-refused f to: there is no earlier revision; there are 1, 2, 3
  )");
}

TEST_F(Timeline, AFunctionAtZeroTurnsToANewRevisionAtOnceAndARequestStartsThatAlone) {
  play(R"(
    0 bundle kpa
    0 apply f any zero
    0 invoke f 1
    9 split f r1:100
  150 expect f nothing
  151 apply f 40% zero
  151 split f r2:100
  151 said f none-serves
  152 invoke f 1
  152 expect f r2:starting
  160 expect f r2:ready
  160 starts 2
  )");
}

// The one that served before comes back, as in any rollout.
TEST_F(Timeline, AFunctionAtZeroReturnsToWhatServedIfTheNewRevisionCannotStart) {
  play(R"(
    0 bundle kpa
    0 apply f any zero
    0 invoke f 1
    9 split f r1:100
  150 expect f nothing
  150 break 2
  151 apply f 40% zero
  151 split f r2:100
  151 load f 1
  200 said f rollout-failed
  200 split f r1:100 r2:0
  )");
}

TEST_F(Timeline, ANewLoopDoesNotTakeAFunctionForOneAtZeroBeforeItsNodesAnswer) {
  play(R"(
    0 apply f 30%
    5 expect f r1:ready
    6 start-takes 30
    6 apply f 40%
    8 node away
    8 control restarts
   12 split f r1:100 r2:0
   13 node back
   14 split f r1:100 r2:0
  )");
}

class Idle : public Timeline, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Bundles, Idle, testing::Values("has-gpu", "has-gpu-paper"));

// Neither one that never had a request, nor one without any for a minute.
TEST_P(Idle, HasNoForecastAndNothingIsStartedForIt) {
  const auto forecast = [&] { return control_->functions().at({.name = "f"}).forecast.expected; };
  play("0 bundle " + std::string(GetParam()) + R"(
    0 measured 300
    0 apply f any
   60 expect f r1:ready
   60 unsaid f new-device
   60 unsaid f used-device
   60 unsaid f vertical-up
   60 starts 1
  )");
  EXPECT_EQ(forecast(), 0);
  play(R"(
   61 load f 8
   70 load f 0
   70 servable f
  )");
  EXPECT_GT(forecast(), 1);
  play("140 servable f");
  EXPECT_EQ(forecast(), 0);
}

TEST_F(Timeline, ALostStartIsAskedForAgainAndALateOneIsNotDoubled) {
  play(R"(
    0 lose starts 1
    0 apply f 30%
    8 expect f nothing
   20 expect f r1:ready
   20 said f start-lost
   20 starts 2
   21 start-takes 30
   21 apply g 30%
   40 expect g r1:starting
   60 expect g r1:ready
   60 starts 3
  )");
}

TEST_F(Timeline, AStartThatIsRepeatedIsOneInstance) {
  play(R"(
    0 repeat starts
    0 apply f 30%
    9 expect f r1:ready
    9 starts 1
  )");
}

TEST_F(Timeline, ALostStopIsAskedForAgain) {
  play(R"(
    0 apply f 30%
    5 expect f r1:ready
    5 lose stops 1
    6 apply f 40%
   30 expect f r2:ready
   31 lose stops 1
   31 delete f
   60 expect f nothing
  )");
}

TEST_F(Timeline, ARestartedLoopAdoptsWhatRunsAndCountsNothingTwice) {
  play(R"(
    0 apply f 30%
    5 expect f r1:ready
    5 load f 10
   20 requests f 150
   21 control restarts
   21 requests f 160
   25 requests f 200
   25 expect f r1:ready
   25 starts 1
   26 gateway restarts
   30 requests f 250
  )");
  const FunctionState& r = control_->functions().at({.name = "f"});
  EXPECT_LE(r.traffic.request_rate(Seconds(10)), 11) << "the restart looked like a burst";
  EXPECT_EQ(r.traffic.totals().latency.count(), r.traffic.totals().ok);
  const Account a = control_->accounting().of({.name = "f"});
  EXPECT_NEAR(a.slice_seconds, 30 * 0.3, 0.01);
  EXPECT_NEAR(a.used_seconds, 25 * 0.3, 0.01) << "what was used before the restart counts once";
}

TEST_F(Timeline, ARestartBetweenAStartAndItsInstanceStartsNoOther) {
  play(R"(
    0 start-takes 20
    0 apply f 30%
    1 expect f r1:starting
    2 control restarts
   10 control restarts
   30 expect f r1:ready
   30 starts 1
  )");
}

TEST_F(Timeline, ARolloutThatCannotStartStaysOnTheOldRevisionAndSaysWhy) {
  play(R"(
    0 apply f 30%
    5 expect f r1:ready
    6 break 2
    6 apply f 40%
   60 split f r1:100 r2:0
   60 said f rollout-failed
   60 starts 4
   61 control restarts
   75 split f r1:100 r2:0
   75 starts 4
   76 mend 2
   80 expect f r1:ready
   81 apply f 35%
   90 expect f r3:ready
   90 split f r3:100
  )");
  EXPECT_LE(cluster_.starts, 10) << "a start that fails is not repeated without end";
}

TEST_F(Timeline, StartsThatTheirNodeEndedDoNotGiveARevisionUp) {
  play(R"(
    0 apply f 30%
    5 expect f r1:ready
    6 start-takes 30
    6 apply f 40%
    7 expect f r1:ready r2:starting
    8 node restarts
   14 expect f r1:ready r2:starting
   15 node restarts
   25 expect f r1:ready r2:starting
   26 node restarts
   27 start-takes 2
   40 expect f r2:ready
   40 split f r2:100
   40 unsaid f rollout-failed
  )");
}

TEST_F(Timeline, ARevisionsOwnFailuresCountAlsoBetweenItsNodes) {
  play(R"(
    0 apply f 30%
    5 expect f r1:ready
    6 break 2
    6 apply f 40%
    7 node restarts
   18 unsaid f rollout-failed
   60 said f rollout-failed
   60 starts 5
   60 split f r1:100 r2:0
  )");
}

TEST_F(Timeline, WhatNeverServedAndEndsAtEveryStartIsGivenUpUntilItIsAppliedAgain) {
  play(R"(
    0 break 1
    0 apply f 30%
   60 starts 3
   60 said f start-backoff
   60 said f start-given-up
   60 mend 1
  300 starts 3
  300 expect f nothing
  300 apply f 30%
  310 expect f r1:ready
  310 split f r1:100
  )");
}

TEST_F(Timeline, WhereNothingIsGivenUpWhatItLackedMayCome) {
  give_up_only_ = false;
  open();
  play(R"(
    0 break 1
    0 apply f 30%
  300 said f start-backoff
  300 unsaid f start-given-up
  300 mend 1
  370 expect f r1:ready
  370 split f r1:100
  )");
  EXPECT_LE(cluster_.starts, 12) << "once a minute in the end";
}

TEST_F(Timeline, WhatWasGivenUpIsTriedAgainWhenTheTrafficAloneChanges) {
  play(R"(
    0 break 1
    0 apply f 30%
   60 said f start-given-up
   60 mend 1
  300 starts 3
  300 apply f 30% canary 50
  310 expect f r1:ready
  310 split f r1:100
  )");
}

TEST_F(Timeline, AnotherRevisionOfAGivenUpFunctionStarts) {
  play(R"(
    0 break 1
    0 apply f 30%
   60 said f start-given-up
   60 apply f 40%
   70 expect f r2:ready
   70 split f r2:100
  )");
}

TEST_F(Timeline, WhatHasServedIsTriedEverMoreSeldom) {
  play(R"(
    0 apply f 30%
    5 expect f r1:ready
    6 break 1
    6 kill f
  120 said f start-backoff
  120 unsaid f start-given-up
  120 mend 1
  200 expect f r1:ready
  200 split f r1:100
  )");
  EXPECT_LE(cluster_.starts, 13);
}

TEST_F(Timeline, AnInstanceThatDiesIsReplacedAtOnce) {
  play(R"(
    0 apply f 30%
    5 kill f
    9 expect f r1:ready
    9 said f instance-ended
    9 starts 2
  )");
}

TEST_F(Timeline, WithoutNodeOrGatewayEverythingStaysAsItIs) {
  play(R"(
    0 apply f 30%
    5 load f 10
    8 node away
   20 split f r1:100
   20 node back
   22 expect f r1:ready
   22 gateway away
   30 gateway back
   30 gateway restarts
   31 split f r1:100
   31 starts 1
  )");
}

TEST_F(Timeline, AnInstanceDrainsWhenTheGatewayHasNothingAtIt) {
  play(R"(
    0 apply f 30
    3 expect f r1:ready
    5 hold f
    5 delete f
    6 expect f r1:ready
    6 stops 0
    20 expect f r1:ready
    20 release f
    21 expect f r1:draining
    25 expect f nothing
  )");
}

TEST_F(Timeline, ARequestThatNeverEndsIsNotWaitedForForEver) {
  play(R"(
    0 apply f 30
    3 expect f r1:ready
    5 hold f
    5 delete f
    34 expect f r1:ready
    36 expect f r1:draining
  )");
}

TEST_F(Timeline, AnInstanceThatAnswersNothingIsReplacedAfterItsTimeoutAndAGrace) {
  play(R"(
    0 apply f 30
    3 expect f r1:ready
    5 hang f
   10 expect f r1:ready
   10 unsaid f overdue
   11 said f overdue
   11 split f r1:100
   11 expect f r1:draining r1:starting
   11 stops 1
   14 expect f r1:ready
   40 expect f r1:ready
   40 starts 2
  )");
  EXPECT_EQ(cluster_.last_drain, Nanos(0)) << "it would not use it";
  EXPECT_EQ(control_->accounting().of({.name = "f"}).stops, 1u);
  const auto decisions = journal_.decisions(FunctionName{.name = "f"}, 100);
  const auto d =
      std::ranges::find(*decisions, "overdue", [](const auto& x) { return x.reason.rule; });
  ASSERT_NE(d, decisions->end());
  EXPECT_EQ(d->reason.text, "Instance " + d->subject +
                                " has answered nothing since a request ran into its timeout of "
                                "60 s, 6.0 s ago; 5 s are allowed. It is replaced.");
}

TEST_F(Timeline, AnOverdueInstanceIsLeftAloneWhileItsGatewayIsAway) {
  play(R"(
    0 apply f 30
    3 expect f r1:ready
    5 hang f
    6 gateway away
   20 expect f r1:ready
   20 gateway back
   21 said f overdue
  )");
}

TEST_F(Timeline, AGatewayThatIsAwayMayHaveRequestsInHand) {
  play(R"(
    0 apply f 30
    3 expect f r1:ready
    5 gateway away
    6 delete f
    9 expect f r1:ready
    9 gateway back
    11 expect f r1:draining
  )");
}

TEST_F(Timeline, ADrainedDeviceIsLeftWithoutAGap) {
  play(R"(
    0 apply f 30%
    5 expect f r1:ready
    6 drain cpu0
    7 expect f r1:ready r1:starting
   14 expect f r1:ready
  )");
  EXPECT_EQ(cluster_.seen.instances.at(0).instance.device(), "cpu1");
}

TEST_F(Timeline, ADeviceThatFailsIsLeftWithoutAGapAndItIsSaidOnce) {
  play(R"(
    0 apply f 30%
    5 expect f r1:ready
    6 fault cpu0
    7 expect f r1:ready r1:starting
   14 expect f r1:ready
   15 control restarts
   17 expect f r1:ready
  )");
  EXPECT_EQ(cluster_.seen.instances.at(0).instance.device(), "cpu1");
  std::vector<std::string> said;
  const std::vector<Decision> decisions = *journal_.decisions(std::nullopt, 100);
  for (const Decision& d : decisions)
    if (d.reason.rule == "fault") said.push_back(d.subject + ": " + d.reason.text);
  EXPECT_EQ(
      said,
      (std::vector<std::string>{"cpu0: Device cpu0 fails: Xid 79. It takes no more instances."}));
}

TEST_F(Timeline, AfterAnOrderlyDownNothingWasLost) {
  play(R"(
    0 apply f 30%
    5 expect f r1:ready
    6 down
    7 expect f r1:starting
   12 expect f r1:ready
   12 unsaid f instance-ended
   12 starts 2
  )");
}

// Two devices, a quarter each for models that were not measured.
TEST_F(Timeline, EightFunctionsNeverMeasuredRunOnTwoDevicesAndTheNinthIsToldWhy) {
  play(R"(
    0 bundle has-gpu
    0 apply a any
    0 apply b any
    0 apply c any
    0 apply d any
    1 apply e any
    1 apply f any
    1 apply g any
    1 apply h any
    4 expect a r1:ready
    4 on a cpu0
    4 on b cpu1
    4 expect h r1:ready
    4 unsaid h cluster-full
    5 apply i any
    6 expect i nothing
    6 unmet i quota 25 %: 2 are too full (nothing is free). a (never measured) holds 25 % of
    7 delete a
    7 start-takes 30
   15 expect i r1:starting
   15 servable i
  )");
}

// A model of which one request takes 150 ms: a whole device does 6.7/s, and 4.7/s with headroom.
TEST_F(Timeline, OneInvokeTakesNoSecondDevice) {
  play(R"(
    0 bundle has-gpu
    0 measured 150
    2 apply f any
    2 invoke f 1
    3 expect f r1:starting
    6 expect f r1:ready
   10 invoke f 1
   11 invoke f 1
   20 invoke f 1
   30 expect f r1:ready
   30 starts 1
   30 stops 0
  )");
}

TEST_F(Timeline, OneInvokeOfABatchTakesNoSecondDevice) {
  play(R"(
    0 bundle has-gpu
    0 measured 150
    0 each f 8
    2 apply f any
    2 invoke f 1
    6 expect f r1:ready
   10 invoke f 1
   30 invoke f 1
   60 starts 1
   60 stops 0
  )");
}

TEST_F(Timeline, RequestsThatAreAnsweredWith400AreNoLoad) {
  play(R"(
    0 bundle has-gpu
    0 measured 150
    0 malformed f
    0 apply f any
    9 load f 40
   30 expect f r1:ready
   30 starts 1
   30 requests f 850
  )");
}

// f takes its need for 4/s at 70 %, g at 10 %.
TEST_F(Timeline, AFunctionsOwnSettingsDecide) {
  play(R"(
    0 bundle has-gpu
    0 measured 50
    0 apply f any
    9 load f 4
   20 on f cpu0
   20 delete f
   29 expect f nothing
   30 apply g any set alpha 0.1
   39 load g 4
   50 on g cpu0 cpu1
  )");
}

// hpa wants four at 300/s, remembers that for 300 s across a restart of the loop, and fills a
// device before it takes the next.
TEST_F(Timeline, WhatAPolicyRemembersOutlivesTheLoop) {
  play(R"(
    0 bundle hpa
    0 apply f 25%
    5 on f cpu0
   10 load f 300
   40 expect f r1:ready r1:ready r1:ready r1:ready
   40 on f cpu0 cpu0 cpu0 cpu0
   41 load f 0
   60 control restarts
  300 expect f r1:ready r1:ready r1:ready r1:ready
  370 expect f r1:ready
  )");
}

// It decides every two seconds.
TEST_F(Timeline, AnUnmetDemandIsSaidUnderTheBundleThatDecidesSeldomToo) {
  play(R"(
    0 bundle has-gpu-paper
    0 measured 150
    0 apply f any
   10 load f 40
   40 said f cluster-full
  )");
}

// Its only device is cordoned while the first request comes; the client leaves.
TEST_F(Timeline, AFunctionAtZeroThatFoundNoRoomIsServedOnceThereIsSome) {
  play(R"(
    0 bundle exclusive
    0 apply a any
    0 apply b any
    5 apply f any zero
    6 expect f nothing
    6 servable f
    6 invoke f 1
    8 unmet f device
   20 delete a
   22 servable f
   30 expect f nothing
   30 invoke f 1
   34 expect f r1:ready
  )");
}

// 12 requests of 40 ms are 480 permille of a device.
TEST_F(Timeline, ALostResizeIsAskedForAgain) {
  play(R"(
    0 bundle has-gpu
    0 measured 40
    0 apply f any
    5 load f 3
   14 expect f r1:ready
   14 holds f at-most 400
   14 lose resizes 3
   14 load f 12
   22 expect f r1:ready
   22 holds f at-least 480
   22 starts 1
  )");
}

// 14 requests of 100 ms are more than a device: the instance is resized to what its device has, and
// a second one, which takes ten seconds, is started once.
TEST_F(Timeline, ALateStartIsBridgedByResizesAndNotDoubled) {
  play(R"(
    0 bundle has-gpu
    0 measured 100
    0 apply f any
    5 load f 2
   14 expect f r1:ready
   14 start-takes 10
   14 load f 14
   16 expect f r1:ready r1:starting
   16 holds f at-least 900
   23 starts 2
   23 expect f r1:ready r1:starting
   26 expect f r1:ready r1:ready
   26 holds f at-least 1400
   26 starts 2
  )");
}

TEST_F(Timeline, ALostStartOfAScaledFunctionIsAskedForAgain) {
  play(R"(
    0 bundle has-gpu
    0 measured 100
    0 apply f any
    5 load f 2
   14 expect f r1:ready
   14 lose starts 1
   14 load f 14
   30 expect f r1:ready r1:ready
   30 holds f at-least 1400
   30 starts 3
  )");
}

TEST_F(Timeline, AStepInLoadTakesASecondDeviceAtOnceAndKeepsItForItsStartsWorth) {
  play(R"(
    0 bundle has-gpu
    0 measured 150
    0 apply f any
    9 expect f r1:ready
   10 load f 12
   11 expect f r1:ready r1:starting
   11 starts 2
   11 load f 0
   12 stops 0
   14 expect f r1:ready r1:ready
   14 stops 0
   60 stops 0
  140 expect f r1:ready
  140 stops 2
  )");
}

// The guarantee of `sluice drain DEVICE`.
TEST_F(Timeline, ACordonedDeviceIsEmptiedMakeBeforeBreak) {
  const std::string script = R"(
    5 expect a r1:ready
    5 on a cpu0
    5 start-takes 4
    5 drain cpu0
    8 expect a r1:ready r1:starting
   10 expect a r1:draining r1:ready
   14 on a cpu1
   14 unsaid a cluster-full
  )";
  play("0 bundle has-gpu\n 0 apply a any\n" + script);
}

TEST_F(Timeline, ACordonedDeviceIsEmptiedOfMeasuredFunctionsToo) {
  play(R"(
    0 bundle has-gpu
    0 apply a any
    0 measured 20
    5 on a cpu0
    5 load a 20
    8 start-takes 4
    8 drain cpu0
   11 expect a r1:ready r1:starting
   20 expect a r1:ready
   20 on a cpu1
   20 unsaid a cluster-full
  )");
}

TEST_F(Timeline, WhatStaysOnACordonedDeviceForLackOfRoomIsSaid) {
  play(R"(
    0 bundle has-gpu
    0 apply a 60%
    0 apply b 60%
    5 on a cpu0
    5 on b cpu1
    5 drain cpu0
   20 expect a r1:ready
   20 on a cpu0
   20 unmet a stays on the cordoned device cpu0: of 2 devices none has room for
   20 unmet a 1 is too full (at most sm 100 % × quota 40 % is free, on cpu1), 1 is cordoned.
   20 servable a
   21 delete b
   40 on a cpu1
  )");
}

TEST_F(Timeline, ACanaryIsPromotedWithoutStartingAgain) {
  play(R"(
    0 apply f 30%
    5 apply f 40% canary 10
   12 split f r1:90 r2:10
   12 expect f r1:ready r2:ready
   13 apply f 40% canary 50
   15 split f r1:50 r2:50
   16 apply f 40%
   18 split f r2:100
   24 expect f r2:ready
   24 starts 2
  )");
}

}  // namespace
}  // namespace sluice::control
