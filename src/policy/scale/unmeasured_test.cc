// Functions whose times were never measured, under load: timelines of a queue in front of instances
// that take 300 ms for a request, one at a time. Each step is a second; a start takes three.
#include "policy/scale/unmeasured.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/cluster.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Nanos kService = Millis(300);
constexpr char kMeasure[] = "Its times were never measured: sluice profile lets quotas be chosen.";

class Unmeasured : public testing::Test, public ClusterFixture {
 protected:
  Unmeasured() : ClusterFixture(4) {
    recorded = true;  // the settings of each bundle
    function("a", Millis(400), Nanos(0)).slice = slice(1000, 400);
    view("a").start_cost = kStart;
  }

  // A second passes at a rate of `requests`. Returns what was decided.
  std::vector<Action> step(double requests) {
    now.now += Seconds(1);
    std::erase_if(now.instances,
                  [](const Instance& i) { return i.state == InstanceState::kDraining; });
    for (Instance& i : now.instances)
      if (now.now - i.started >= kStart) i.state = InstanceState::kReady;
    serve(requests);
    std::vector<Action> actions = decide();
    carry_out(now, actions, "i", starts_);
    expect_sound();
    for (const Action& a : actions) reasons.push_back(a.reason);
    return actions;
  }
  void pass(int seconds, double requests) {
    for (; seconds > 0; --seconds) step(requests);
  }

  int count() const { return static_cast<int>(instances("a").size()); }
  int starting() const {
    return static_cast<int>(
        std::ranges::count(now.instances, InstanceState::kStarting, &Instance::state));
  }

  bool broken = false;  // no instance answers
  bool unseen = false;  // the last answer is longer ago than what is measured
  double waiting = 0;
  std::vector<Reason> reasons;  // of all decisions

 private:
  static constexpr Nanos kStart = Seconds(3);

  void serve(double requests) {
    const auto ready = std::ranges::count(now.instances, InstanceState::kReady, &Instance::state);
    const double most = broken ? 0 : static_cast<double>(ready) / seconds(kService);
    const double done = std::min(waiting + requests, most);
    waiting += requests - done;
    MeasuredInstances measured;
    for (const Instance& i : now.instances)
      if (i.state == InstanceState::kReady && done > 0 && !unseen)
        measured.push_back({i.id, {}, done / static_cast<double>(ready), kService});
    now.measured = std::make_shared<const MeasuredInstances>(std::move(measured));
    FunctionView& v = view("a");
    v.rate = v.forecast = requests;
    v.queued = static_cast<int>(waiting);
    v.violating = waiting >= 1;
    peaks_.push_back(requests);
    const auto minute = peaks_.end() - std::min<std::ptrdiff_t>(60, std::ssize(peaks_));
    v.forecast_peak = *std::max_element(minute, peaks_.end());
  }

  int starts_ = 0;
  std::vector<double> peaks_;
};

// An instance does 3.3/s: 9/s need three, and four at alpha.
TEST_F(Unmeasured, WhatFallsBehindGetsOneInstanceAfterAnother) {
  pass(5, 1);
  ASSERT_EQ(count(), 1);
  int most_starting = 0;
  for (int s = 0; s < 60; ++s) {
    step(9);
    most_starting = std::max(most_starting, starting());
  }
  EXPECT_EQ(most_starting, 1);
  EXPECT_EQ(count(), 4);
  EXPECT_LT(waiting, 1);
  for (const Instance* i : instances("a"))
    EXPECT_EQ(i->slice(), (Slice{kWhole, {{400}, kWhole}, 0}));
  ASSERT_THAT(reasons, SizeIs(4));
  EXPECT_EQ(reasons[1].rule, "new-device");
  EXPECT_EQ(reasons[1].text,
            "More requests are late, refused or failed than the objective of 400.0 ms allows; "
            "9.0/s expected, 1 instance does about 3.3/s. Another instance, sm 100 % × quota 40 % "
            "on d1. Its times were never measured: sluice profile lets quotas be chosen.");
}

TEST_F(Unmeasured, WhatKeepsUpIsLeftAlone) {
  pass(10, 1);
  pass(100, 3);
  EXPECT_THAT(reasons, SizeIs(1)) << "the first start";
}

TEST_F(Unmeasured, WhatIsSpareIsGivenBackOneInACooldown) {
  pass(5, 1);
  pass(60, 9);
  ASSERT_EQ(count(), 4);
  reasons.clear();
  pass(59, 0);
  EXPECT_EQ(count(), 4) << "the last minute's load";
  pass(1, 0);
  EXPECT_EQ(count(), 3);
  pass(9, 0);
  EXPECT_EQ(count(), 3) << "the cooldown";
  pass(100, 0);
  EXPECT_EQ(count(), 1);
  ASSERT_THAT(reasons, SizeIs(3));
  EXPECT_EQ(reasons[0].rule, "scale-in");
  EXPECT_EQ(reasons[0].text, std::string("No load expected: 3 instances stay. ") + kMeasure);
}

TEST_F(Unmeasured, ALowLoadIsCarriedByFewerWithoutFallingBehind) {
  pass(5, 1);
  pass(60, 9);
  reasons.clear();
  pass(100, 4.1);
  EXPECT_EQ(count(), 4) << "beta × 13.3 are 4";
  pass(200, 1.5);
  EXPECT_EQ(count(), 1);
  EXPECT_EQ(reasons.at(0).text,
            std::string("1.5/s expected, below 30 % of the 13.3/s of 4 instances: 3 "
                        "instances stay. ") +
                kMeasure);
  EXPECT_THAT(reasons, SizeIs(3)) << "none comes again";
}

TEST_F(Unmeasured, WhatIsSpareAtAFewRequestsAMinuteIsGivenBackByWhatWasSeen) {
  pass(5, 1);
  pass(60, 9);
  pass(1, 0.2);
  unseen = true;
  pass(200, 0.2);
  EXPECT_EQ(count(), 1);
}

TEST_F(Unmeasured, WithoutAStatedSliceEachHasAnEqualShare) {
  view("a").spec.slice.reset();
  pass(5, 1);
  pass(60, 9);
  ASSERT_GE(count(), 3);
  for (const Instance* i : instances("a"))
    EXPECT_EQ(i->slice(), (Slice{kWhole, {{250}, kWhole}, 0}));
}

TEST_F(Unmeasured, MaxReplicasAndFullDevicesAreSaid) {
  view("a").spec.inference().max_replicas = 2;
  pass(5, 1);
  pass(60, 9);
  EXPECT_EQ(count(), 2);
  EXPECT_EQ(reasons.back().rule, "max-replicas");
  EXPECT_THAT(reasons.back().text, HasSubstr("2 instances do about 6.7/s: maxReplicas allows 2."));
  EXPECT_THAT(reasons.back().text, HasSubstr(kMeasure));
  view("a").spec.inference().max_replicas = 0;
  pass(200, 100);
  EXPECT_EQ(count(), 8) << "two on each device";
  EXPECT_EQ(reasons.back().rule, "cluster-full");
  EXPECT_THAT(reasons.back().text, HasSubstr("none has room for sm 100 % × quota 40 %"));
  EXPECT_THAT(reasons.back().text, HasSubstr(kMeasure));
}

// A program that fails all requests violates its objective too.
TEST_F(Unmeasured, InstancesThatAnswerNothingGetNoCompany) {
  broken = true;
  pass(60, 9);
  EXPECT_EQ(count(), 1);
  EXPECT_EQ(reasons.back().rule, "never-measured");
  EXPECT_THAT(reasons.back().text,
              HasSubstr("no instance answered in the last 10 seconds: another would hardly help."));
}

// One request in two seconds, each of which takes longer than its objective.
TEST_F(Unmeasured, InstancesThatAreLateThoughIdleGetNoCompany) {
  pass(5, 0.5);
  for (int s = 0; s < 60; ++s) {
    step(0.5);
    view("a").violating = true;
    for (const Action& a : decide()) EXPECT_EQ(a.reason.rule, "never-measured");
  }
  EXPECT_EQ(count(), 1);
}

TEST_F(Unmeasured, WhatLeavesACordonedDeviceIsReplacedBefore) {
  pass(5, 1);
  pass(60, 9);
  ASSERT_EQ(count(), 4);
  device("d0").drained = true;
  device("d1").drained = true;
  for (int s = 0; s < 40; ++s) {
    step(9);
    EXPECT_LT(waiting, 1) << s;
  }
  for (const Instance* i : instances("a")) EXPECT_THAT(i->device(), testing::AnyOf("d2", "d3"));
}

// --- how full an instance is ---

struct PaceCase {
  const char* what;
  int places;   // containerConcurrency
  int request;  // permille
  int busy;     // permille of the device's time
  double answered;
  Nanos latency;
  double each;
};

TEST(Pace, IsWhatAnInstanceAnswersByHowFullItIs) {
  const PaceCase cases[] = {
      {"full of requests", 1, 400, 0, 4, Millis(250), 4},
      {"half full", 1, 400, 0, 2, Millis(250), 4},
      {"of eight places two are taken", 8, 400, 0, 20, Millis(100), 80},
      {"it computes, so that places say nothing", 8, 400, 200, 5, Millis(100), 10},
      {"it computes all of its time", 8, 400, 500, 5, Millis(100), 5},
      {"requests of several inferences", 1, 400, 0, 40, Millis(250), 40},
      {"no answer", 1, 400, 900, 0, Nanos(0), 0},
  };
  for (const PaceCase& p : cases) {
    SCOPED_TRACE(p.what);
    ClusterFixture c(1);
    c.function("a", Millis(300), Nanos(0)).inference().container_concurrency = p.places;
    c.instance("a1", "a", "d0", slice(1000, p.request));
    c.now.measured = std::make_shared<const MeasuredInstances>(
        MeasuredInstances{{"a1", {p.busy}, p.answered, p.latency}});
    const SnapshotIndex index(c.now);
    const std::vector<FunctionName> mine = {fn("a")};
    const std::vector<Settings> settings{Settings(HasGpuSettings{})};
    Memory memory;
    const Input input{c.now,       index,  *find_placement("lanes"),
                      "planned",   mine,   settings,
                      c.predictor, memory, c.random};
    const ClusterPlan plan(input, false);
    EXPECT_NEAR(pace_of(plan, plan.demands().at(0)).each, p.each, 1e-6);
  }
}

// --- bundles that keep their number of instances ---

TEST_F(Unmeasured, EveryBundleThatNeedsTimesSaysSoOnceAFunctionFallsBehind) {
  for (const char* name : {"fast-gshare", "fast-gshare-paper", "dilu", "mps-l", "tgs", "infless"}) {
    SCOPED_TRACE(name);
    ClusterFixture c(2);
    c.bundle = name;
    c.function("a", Millis(400), Nanos(0));
    c.view("a").last_request = c.now.now;
    c.view("a").in_flight = 1;
    c.rate("a", 9);
    c.tick();
    EXPECT_THAT(c.tick(), IsEmpty()) << "it keeps up";
    c.view("a").queued = 40;
    const std::vector<Action> actions = c.tick();
    EXPECT_THAT(c.rules("a"), ElementsAre("never-measured"));
    EXPECT_THAT(only<Unmet>(actions), SizeIs(1));
    EXPECT_EQ(actions.at(0).reason.text,
              "40 requests wait, and the instances have 1 place; 9.0/s expected, no instance "
              "answered in the last 10 seconds. The policy scales by measured times, and these "
              "never were: sluice profile makes the function scale.");
  }
}

// --- and those that scale by what is at hand ---

TEST_F(Unmeasured, BundlesByConcurrencyNeedNoTimes) {
  for (const char* name : {"exclusive", "hpa", "kpa"}) {
    SCOPED_TRACE(name);
    ClusterFixture c(2);
    c.bundle = name;
    c.function("a", Millis(400), Nanos(0));
    c.tick();
    c.view("a").concurrency = c.view("a").concurrency_peak = 40;
    for (int s = 0; s < 20; ++s) c.tick();
    EXPECT_THAT(c.instances("a"), SizeIs(2));
  }
}

}  // namespace
}  // namespace sluice::policy
