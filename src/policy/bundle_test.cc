// `fixed`, `exclusive`, and several bundles on one cluster.
#include "policy/bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "arbiters/arbiter.h"
#include "policy/forecast.h"
#include "routing/route.h"
#include "tests/support/cluster.h"

namespace sluice::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Bundles, AreFoundByNameAndNameWhatThereIs) {
  for (const Bundle& b : bundles()) {
    EXPECT_EQ(find_bundle(b.name), &b) << b.name << " twice";
    EXPECT_FALSE(b.summary.empty()) << b.name;
    EXPECT_NE(find_forecaster(b.forecast), nullptr) << b.name;
    EXPECT_NE(find_placement(b.place), nullptr) << b.name;
    EXPECT_NE(find_route(b.route), nullptr) << b.name;
    EXPECT_TRUE(make_arbiter(b.arbiter, {}).ok()) << b.name;
  }
  EXPECT_EQ(find_bundle("magic"), nullptr);
}

ClusterFixture cluster_with(const std::string& bundle, int devices) {
  ClusterFixture c(devices);
  c.bundle = bundle;
  return c;
}

TEST(Fixed, HoldsItsSliceWhateverTheRate) {
  ClusterFixture c = cluster_with("fixed", 2);
  FunctionSpec& spec = c.function("a", Millis(100), Millis(10));
  spec.inference().min_replicas = 2;
  spec.slice = Slice{{500}, {{300}, {600}}, 0};
  c.tick();
  ASSERT_THAT(c.instances("a"), SizeIs(2));
  EXPECT_EQ(c.instances("a")[0]->slice(), *spec.slice);
  for (const double rate : {0.0, 10.0, 1e6}) {
    c.rate("a", rate);
    EXPECT_THAT(c.tick(), IsEmpty()) << rate;
  }
}

TEST(Fixed, ReplacesWhatIsGone) {
  ClusterFixture c = cluster_with("fixed", 1);
  c.function("a", Millis(100), Millis(10)).slice = slice(500, 300);
  c.tick();
  c.now.instances.clear();
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("start"));
}

TEST(Fixed, SaysWhatDidNotFit) {
  ClusterFixture c = cluster_with("fixed", 1);
  FunctionSpec& spec = c.function("a", Millis(100), Millis(10));
  spec.inference().min_replicas = 4;
  spec.slice = slice(1000, 400);
  const auto& actions = c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("start", "start", "cluster-full"));
  EXPECT_EQ(actions[2].reason.text,
            "4 instances with a fixed slice always stay (minReplicas). 2 could not be started: of "
            "1 device none has room for sm 100 % × quota 40 %: 1 is too full (at most sm 100 % × "
            "quota 20 % is free, on d0). a holds 80 % of a device.");
}

TEST(Fixed, LeavesADrainedDeviceMakeBeforeBreak) {
  ClusterFixture c = cluster_with("fixed", 2);
  c.function("a", Millis(100), Millis(10)).slice = slice(500, 300);
  c.tick();
  c.device(c.instances("a").at(0)->device()).drained = true;
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("start"));
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("replaced"));
  EXPECT_THAT(c.tick(), IsEmpty());
}

TEST(Exclusive, TakesWholeDevicesByConcurrency) {
  ClusterFixture c = cluster_with("exclusive", 4);
  c.function("a", Millis(100), Millis(10)).inference().container_concurrency = 10;
  c.view("a").concurrency = 7;  // 70 % of one
  c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(1));
  EXPECT_EQ(c.instances("a")[0]->slice(), slice(1000, 1000));
  c.view("a").concurrency = 20;
  c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(3));
  EXPECT_THAT(c.tick(), IsEmpty());
}

TEST(Exclusive, NeverMoreInstancesThanFreeDevices) {
  ClusterFixture c = cluster_with("exclusive", 3);
  c.function("a", Millis(100), Millis(10)).inference().container_concurrency = 1;
  c.instance("b1", "b", "d1", slice(250, 50));
  c.view("a").concurrency = 20;
  const auto& actions = c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("start", "start", "cluster-full"));
  EXPECT_THAT(actions.back().reason.text, HasSubstr("27 could not be started"));
}

TEST(Exclusive, LeavesOneByOneOnceTheLastMinuteWasQuiet) {
  ClusterFixture c = cluster_with("exclusive", 4);
  c.function("a", Millis(100), Millis(10)).inference().container_concurrency = 10;
  c.view("a").concurrency = 20;
  c.tick();
  c.view("a").concurrency = 0;
  c.view("a").concurrency_peak = 20;
  EXPECT_THAT(c.tick(), IsEmpty());
  c.view("a").concurrency_peak = 0;
  c.tick();
  EXPECT_THAT(c.rules("a"), ElementsAre("stop"));
  EXPECT_THAT(c.tick(), IsEmpty());  // the cooldown
  c.tick(c.config.cooldown);
  EXPECT_THAT(c.instances("a"), SizeIs(1));
  EXPECT_THAT(c.tick(c.config.cooldown), IsEmpty());  // min_replicas stays
}

TEST(Exclusive, TheFileSaysTheTargetAndTheIdleTimeBeforeZero) {
  ClusterFixture c = cluster_with("exclusive", 4);
  FunctionSpec& a = c.function("a", Millis(100), Millis(10));
  a.inference().container_concurrency = 10;
  a.inference().scale_target = 2;
  a.inference().min_replicas = 0;
  a.inference().scale_to_zero_after = Seconds(300);
  c.view("a").concurrency = c.view("a").concurrency_peak = 6;
  c.tick();
  EXPECT_THAT(c.instances("a"), SizeIs(3));
  c.view("a").concurrency = c.view("a").concurrency_peak = 0;
  for (int minute = 0; minute < 4; ++minute) c.tick(Seconds(60));
  EXPECT_THAT(c.instances("a"), SizeIs(1));
  EXPECT_THAT(c.tick(Seconds(50)), IsEmpty());
  c.tick(Seconds(20));
  EXPECT_THAT(c.rules("a"), ElementsAre("stop"));
}

TEST(Exclusive, AShortIdleTimeForgetsTheLastMinutesPeak) {
  ClusterFixture c = cluster_with("exclusive", 1);
  FunctionSpec& a = c.function("a", Millis(100), Millis(10));
  a.inference().min_replicas = 0;
  a.inference().scale_to_zero_after = Seconds(5);
  c.view("a").concurrency = c.view("a").concurrency_peak = 0.5;
  c.tick();
  c.view("a").concurrency = 0;
  c.tick(Seconds(4));
  EXPECT_THAT(c.instances("a"), SizeIs(1));
  c.tick(Seconds(2));
  EXPECT_THAT(c.instances("a"), IsEmpty());
}

// By the table: with minReplicas 0 and no load none is left.
TEST(Bundles, ReachZeroOrKeepOne) {
  for (const Bundle& bundle : bundles()) {
    ClusterFixture c = cluster_with(std::string(bundle.name), 2);
    c.function("a", Millis(100), Millis(10)).inference().min_replicas = 0;
    c.view("a").spec.slice = slice(1000, 300);
    c.view("a").concurrency = 0.5;
    c.rate("a", 1);
    c.tick();
    ASSERT_THAT(c.instances("a"), SizeIs(1)) << bundle.name;
    c.view("a").concurrency = 0;
    c.rate("a", 0);
    for (int n = 0; n < 5; ++n) c.tick(Seconds(60));
    EXPECT_THAT(c.instances("a"), SizeIs(bundle.reaches_zero ? 0 : 1)) << bundle.name;
  }
}

TEST(Decide, EveryFunctionGoesByItsOwnBundleAndNoRoomIsGivenTwice) {
  ClusterFixture c(2);
  c.function("a", Millis(100), Millis(10)).policy = "has-gpu";
  c.function("b", Millis(100), Millis(10)).policy = "exclusive";
  FunctionSpec& fixed = c.function("c", Millis(100), Millis(10));
  fixed.policy = "fixed";
  fixed.slice = slice(500, 500);
  c.rate("a", 30);
  c.view("b").concurrency = 0.5;
  for (int i = 0; i < 3; ++i) c.tick();  // tick() checks that nothing overlaps
  for (const char* name : {"a", "b", "c"}) EXPECT_THAT(c.instances(name), SizeIs(1)) << name;
  EXPECT_NE(c.instances("a")[0]->device(), c.instances("b")[0]->device());
}

// One device that functions of two bundles both want whole.
std::string first_served(bool a_violates, bool reverse_table) {
  ClusterFixture c(1);
  c.function("a", Millis(100), Millis(10)).policy = "exclusive";
  FunctionSpec& b = c.function("b", Millis(100), Millis(10));
  b.policy = "fixed";
  b.priority = 1;
  c.view("a").concurrency = 1;
  c.view("a").last_request = c.now.now;
  c.view("a").violating = a_violates;
  std::vector<Bundle> table(bundles().begin(), bundles().end());
  if (reverse_table) std::ranges::reverse(table);
  for (const Action& action : decide(c.now, {}, c.predictor, c.memories, c.random, table))
    if (std::holds_alternative<StartInstance>(action.what)) return action.function.name;
  return "nobody";
}

// `has-gpu-paper` runs under another arbiter than `has-gpu` and `fixed`.
struct TwoArbiters : ClusterFixture {
  explicit TwoArbiters(int devices) : ClusterFixture(devices) {
    add("a", "has-gpu-paper");
    add("b", "fixed");
  }
  void add(const std::string& name, const std::string& policy) {
    FunctionSpec& spec = function(name, Millis(100), Millis(10));
    spec.policy = policy;
    spec.slice = slice(250, 100);
    rate(name, 1);
  }
  std::string device_of(const std::string& name) const {
    return instances(name).empty() ? "none" : instances(name)[0]->device();
  }
};

TEST(Arbiters, BundlesOfDifferentOnesNeverShareADevice) {
  TwoArbiters c(2);
  c.add("c", "has-gpu");
  for (int i = 0; i < 3; ++i) c.tick();
  EXPECT_NE(c.device_of("a"), c.device_of("b"));
  EXPECT_EQ(c.device_of("b"), c.device_of("c")) << "one arbiter, several bundles";
  EXPECT_EQ(c.instances("a").at(0)->arbiter, "window");
  EXPECT_EQ(c.instances("b").at(0)->arbiter, "planned");
}

TEST(Arbiters, ADeviceOfAnotherIsFullAndTheReasonSaysSo) {
  TwoArbiters c(1);
  const std::vector<Action>& actions = c.tick();
  EXPECT_THAT(c.rules("b"), ElementsAre("cluster-full"));
  EXPECT_THAT(actions.back().reason.text, HasSubstr("d0 runs the arbiter window for function a"));
}

TEST(Arbiters, ADeviceIsFreeAgainWhenItsLastInstanceHasGone) {
  TwoArbiters c(1);
  c.tick();
  std::erase_if(c.now.functions, [](const FunctionView& f) { return f.spec.name == fn("a"); });
  ASSERT_THAT(c.now.instances, SizeIs(1));
  c.now.instances[0].state = InstanceState::kDraining;
  EXPECT_THAT(c.decide(), SizeIs(1));
  EXPECT_THAT(only<StartInstance>(c.decide()), IsEmpty()) << "it drains, and still holds its room";
  c.tick();
  EXPECT_EQ(c.device_of("b"), "d0");
}

TEST(Arbiters, OneThatTheUserFixedServesAllBundles) {
  TwoArbiters c(1);
  c.device("d0").arbiter = "deadline";
  c.tick();
  EXPECT_EQ(c.device_of("a"), "d0");
  EXPECT_EQ(c.device_of("b"), "d0");
}

// What the first instance of a bundle's function requires of an empty device.
TEST(Arbiters, AGpuRunsSharesWhereABundleNamesPlannedAndElseWhatItNames) {
  for (const Bundle& bundle : bundles())
    for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda}) {
      ClusterFixture c = cluster_with(std::string(bundle.name), 1);
      c.device("d0").kind = kind;
      c.function("a", Millis(100), Millis(10)).slice = slice(1000, 500);
      c.rate("a", 1);
      c.view("a").concurrency = 0.5;
      c.tick();
      ASSERT_THAT(c.instances("a"), SizeIs(1)) << bundle.name;
      const bool shared = kind == DeviceKind::kCuda && bundle.arbiter == "planned";
      EXPECT_EQ(c.instances("a")[0]->arbiter, shared ? "shares" : bundle.arbiter) << bundle.name;
    }
}

// A GPU's clients, the bundle that wants another instance, and what it may have there.
TEST(Arbiters, AGpuWithClientsGoesOnWithTheOneThatItRuns) {
  const auto joins = [](const std::string& runs, const std::string& bundle) -> std::string {
    ClusterFixture c = cluster_with(bundle, 1);
    c.device("d0").kind = DeviceKind::kCuda;
    c.instance("x", "other", "d0", slice(250, 100)).arbiter = runs;
    c.function("a", Millis(100), Millis(10)).slice = slice(250, 100);
    c.rate("a", 1);
    c.tick();
    return c.instances("a").empty() ? "full" : c.instances("a")[0]->arbiter;
  };
  EXPECT_EQ(joins("planned", "fixed"), "planned") << "as before its kind ran shares";
  EXPECT_EQ(joins("shares", "fixed"), "shares");
  EXPECT_EQ(joins("window", "fixed"), "full");
  EXPECT_EQ(joins("window", "has-gpu-paper"), "window");
  EXPECT_EQ(joins("shares", "has-gpu-paper"), "full");
}

TEST(Arbiters, TheOneThatTheUserFixedIsWhatAnInstanceHas) {
  for (const char* fixed : {"planned", "deadline", "shares"}) {
    ClusterFixture c = cluster_with("fixed", 1);
    c.device("d0").kind = DeviceKind::kCuda;
    c.device("d0").arbiter = fixed;
    c.function("a", Millis(100), Millis(10)).slice = slice(250, 100);
    c.tick();
    EXPECT_EQ(c.instances("a").at(0)->arbiter, fixed);
  }
}

// A prediction holds for the window of the arbiter that an empty device is about to run.
TEST(Arbiters, AnEmptyDeviceHasTheWindowOfTheOneThatItWillRun) {
  static Nanos seen[2];
  ClusterFixture c(2);
  c.function("a", Millis(100), Millis(10)).policy = "fixed";
  c.instance("x", "gone", "d1", slice(250, 100));
  Bundle looking = *find_bundle("fixed");
  looking.arbiter = "introspective";
  looking.scale = [](Input& input) {
    for (int d = 0; d < 2; ++d) seen[d] = input.snapshot.devices[d].window;
    return std::vector<Action>();
  };
  policy::decide(c.now, {}, c.predictor, c.memories, c.random, std::span(&looking, 1));
  EXPECT_EQ(seen[0], window_of("introspective"));
  EXPECT_EQ(seen[1], c.now.devices[1].window) << "it is in use";
}

// d0 and d1 are CPU devices, d2 and d3 GPUs. Returns the kinds that a function's instances are on,
// after a load that wants all it can have.
std::set<std::string> used_kinds(const std::string& bundle, const std::string& device) {
  ClusterFixture c = cluster_with(bundle, 4);
  c.device("d2").kind = c.device("d3").kind = DeviceKind::kCuda;
  for (const char* name : {"a", "b"}) {
    c.function(name, Millis(100), Millis(10)).slice = slice(1000, 500);
    c.rate(name, 5000);
    c.view(name).concurrency = 50;
  }
  c.view("a").spec.device = device;
  for (int i = 0; i < 8; ++i) c.tick();
  c.expect_sound();
  std::set<std::string> kinds;
  for (const Instance* i : c.instances("a"))
    kinds.insert(c.device(i->device()).kind == DeviceKind::kCuda ? "cuda" : "cpu");
  return kinds;
}

TEST(DeviceKinds, AFunctionIsPlacedWhereItsFileSays) {
  for (const Bundle& bundle : bundles()) {
    SCOPED_TRACE(bundle.name);
    const std::string name(bundle.name);
    EXPECT_THAT(used_kinds(name, "cpu"), ElementsAre("cpu"));
    EXPECT_THAT(used_kinds(name, ""), ElementsAre("cpu"));
    EXPECT_THAT(used_kinds(name, "cuda"), ElementsAre("cuda"));
    EXPECT_FALSE(used_kinds(name, "any").empty());
  }
}

TEST(DeviceKinds, AFunctionIsPlacedOnTheTypesThatItsFileNames) {
  for (const Bundle& bundle : bundles()) {
    SCOPED_TRACE(bundle.name);
    ClusterFixture c = cluster_with(std::string(bundle.name), 4);
    for (const char* device : {"d2", "d3"}) c.device(device).type_name = "little";
    for (const char* name : {"a", "b"}) {
      c.function(name, Millis(100), Millis(10)).slice = slice(1000, 500);
      c.rate(name, 5000);
      c.view(name).concurrency = 50;
    }
    c.view("a").spec.device_types = {"little"};
    for (int i = 0; i < 8; ++i) c.tick();
    c.expect_sound();
    EXPECT_FALSE(c.instances("a").empty());
    for (const Instance* i : c.instances("a"))
      EXPECT_EQ(type_of(c.device(i->device())).name, "little") << i->device();
  }
}

// Of bundles that scale by rate.
TEST(StatedRate, ThereIsAlwaysRoomForIt) {
  for (const Bundle& bundle : bundles()) {
    if (!bundle.predicts) continue;
    SCOPED_TRACE(bundle.name);
    ClusterFixture c = cluster_with(std::string(bundle.name), 4);
    c.function("a", Millis(100), Millis(10)).inference().slo.rate = 150;
    c.rate("a", 1);
    for (int i = 0; i < 30; ++i) c.tick();
    EXPECT_GE(c.capacity("a"), 150 * 0.99);
    c.rate("a", 0);
    for (int i = 0; i < 60; ++i) c.tick();
    EXPECT_GE(c.capacity("a"), 150 * 0.99) << "without a request";
  }
}

TEST(StatedMps, OffIsAllOfAGpusSms) {
  for (const Bundle& bundle : bundles()) {
    if (!bundle.predicts) continue;
    SCOPED_TRACE(bundle.name);
    ClusterFixture c = cluster_with(std::string(bundle.name), 4);
    c.function("a", Millis(100), Millis(10)).mps = "off";
    c.rate("a", 40);
    for (int i = 0; i < 8; ++i) c.tick();
    EXPECT_FALSE(c.instances("a").empty());
    for (const Instance* i : c.instances("a")) EXPECT_EQ(i->slice().sm, kWhole) << i->id;
  }
}

// One for big devices, and one for all others but little ones, whose file is damaged.
TEST(DeviceKinds, AVariantThatCannotBeServedKeepsAFunctionFromItsType) {
  for (const Bundle& bundle : bundles()) {
    SCOPED_TRACE(bundle.name);
    ClusterFixture c = cluster_with(std::string(bundle.name), 4);
    for (const char* device : {"d0", "d1"}) c.device(device).type_name = "big";
    for (const char* device : {"d2", "d3"}) c.device(device).type_name = "little";
    c.function("a", Millis(100), Millis(10)).slice = slice(1000, 500);
    c.rate("a", 5000);
    c.view("a").concurrency = 50;
    c.view("a").spec.inference().variants = {
        {.device_type = "big", .quantization = "", .model = {}, .fault = ""},
        {.device_type = "little", .quantization = "int8", .model = {}, .fault = "no archive"},
        {.device_type = "", .quantization = "", .model = {}, .fault = ""}};
    for (int i = 0; i < 8; ++i) c.tick();
    c.expect_sound();
    EXPECT_FALSE(c.instances("a").empty());
    for (const Instance* i : c.instances("a"))
      EXPECT_NE(type_of(c.device(i->device())).name, "little") << i->device();
  }
}

TEST(DeviceKinds, WithVariantsAloneItsTypesAreTheirs) {
  ClusterFixture c = cluster_with("has-gpu", 4);
  c.device("d1").type_name = "big";
  c.function("a", Millis(100), Millis(10));
  c.rate("a", 5000);
  c.view("a").spec.inference().variants = {
      {.device_type = "big", .quantization = "", .model = {}, .fault = ""}};
  for (int i = 0; i < 8; ++i) c.tick();
  EXPECT_FALSE(c.instances("a").empty());
  for (const Instance* i : c.instances("a")) EXPECT_EQ(i->device(), "d1");
}

TEST(DeviceKinds, AFunctionWithoutSuchADeviceSaysSo) {
  ClusterFixture c = cluster_with("has-gpu", 2);
  c.function("a", Millis(100), Millis(10)).device = "cuda";
  c.rate("a", 10);
  c.tick();
  EXPECT_TRUE(c.instances("a").empty());
  EXPECT_FALSE(c.rules("a").empty());
}

// Its newest revision runs elsewhere.
TEST(DeviceKinds, AnInstanceOnTheWrongKindIsReplacedMakeBeforeBreak) {
  for (const char* bundle : {"has-gpu", "fixed", "kpa", "smif"}) {
    SCOPED_TRACE(bundle);
    ClusterFixture c = cluster_with(bundle, 2);
    c.device("d1").kind = DeviceKind::kCuda;
    FunctionSpec& spec = c.function("a", Millis(100), Millis(10));
    spec.slice = slice(1000, 500);
    spec.device = "cuda";
    c.instance("x", "a", "d0", slice(1000, 500));
    c.rate("a", 5);
    c.view("a").concurrency = 0.5;
    c.tick();
    std::set<std::string> devices;
    for (const Instance* i : c.instances("a")) devices.insert(i->device());
    EXPECT_TRUE(devices.contains("d1"));
    for (int i = 0; i < 60; ++i) c.tick();
    devices.clear();
    for (const Instance* i : c.instances("a")) devices.insert(i->device());
    EXPECT_THAT(devices, ElementsAre("d1"));
  }
}

TEST(Decide, TheMostUrgentIsServedFirstWhateverTheOrderOfTheTable) {
  for (const bool reverse_table : {false, true}) {
    EXPECT_EQ(first_served(false, reverse_table), "b");  // has the higher priority
    EXPECT_EQ(first_served(true, reverse_table), "a");   // violates its objective
  }
}

TEST(Decide, WhoIsNotDueIsTakenAsItIs) {
  ClusterFixture c(1);
  c.function("a", Millis(100), Millis(10));
  c.rate("a", 30);
  c.view("a").due = false;
  EXPECT_THAT(c.tick(), IsEmpty());
  c.view("a").due = true;
  EXPECT_THAT(c.tick(), SizeIs(1));
}

// A policy that counts its decisions, and draws.
std::vector<Action> count_decisions(Input& input) {
  std::vector<double>& decisions = input.memory.numbers["cluster"];
  if (decisions.empty()) decisions = {0, 0};
  ++decisions[0];
  decisions[1] = input.random.uniform();
  return {};
}

TEST(Decide, APolicyRemembersAndOneOfAnotherVersionForgets) {
  ClusterFixture c(1);
  c.function("a", Millis(100), Millis(10)).policy = "fixed";
  Bundle counting = *find_bundle("fixed");
  counting.scale = count_decisions;
  const auto tick = [&] {
    policy::decide(c.now, {}, c.predictor, c.memories, c.random, std::span(&counting, 1));
    return c.memories.at("fixed").numbers.at("cluster");
  };
  const double first = tick()[1];
  EXPECT_EQ(tick()[0], 2);
  counting.memory_version = 1;
  EXPECT_EQ(tick()[0], 1);
  c.memories.clear();
  c.random = Random(1);
  EXPECT_EQ(tick()[1], first) << "the same seed, the same draw";
}

// Its node takes the device with it, and reports the instance as gone later.
TEST(Decide, AnInstanceOnADeviceThatHasGoneCountsForNothing) {
  for (const Bundle& bundle : bundles()) {
    ClusterFixture c = cluster_with(std::string(bundle.name), 1);
    c.function("a", Millis(100), Millis(10)).slice = slice(1000, 500);
    c.rate("a", 1);
    c.instance("old", "a", "gone", slice(1000, 500));
    const std::vector<Action> actions = c.decide();
    ASSERT_THAT(actions, SizeIs(1)) << bundle.name;
    const auto started = only<StartInstance>(actions);
    ASSERT_THAT(started, SizeIs(1)) << bundle.name;
    EXPECT_EQ(started[0].first().device, "d0") << bundle.name;
  }
}

// As published, a slice may take the whole objective and is used up to 90 % of its capacity.
TEST(Decide, EachBundleGoesByItsOwnSettings) {
  ClusterFixture c(4);
  c.function("ours", Millis(100), Millis(10)).policy = "has-gpu";
  c.function("papers", Millis(100), Millis(10)).policy = "has-gpu-paper";
  for (const char* name : {"ours", "papers"}) c.rate(name, 50);
  const std::vector<Action> actions = policy::decide(c.now, {}, c.predictor, c.memories, c.random);
  std::map<std::string, double> held;
  for (const StartInstance& s : only<StartInstance>(actions)) {
    held[s.function.name] += static_cast<double>(area(s.first().slice));
    EXPECT_EQ(s.first().slice.quota.limit > s.first().slice.quota.request,
              s.function.name == "ours");
  }
  EXPECT_GT(held["ours"], held["papers"]);
}

TEST(Decide, UnnamedFunctionsGoByThePlatforms) {
  ClusterFixture c = cluster_with("exclusive", 1);
  c.function("a", Millis(100), Millis(10));
  c.tick();
  EXPECT_EQ(c.instances("a").at(0)->slice(), slice(1000, 1000));
}

}  // namespace
}  // namespace sluice::policy
