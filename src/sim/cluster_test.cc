// A simulated cluster whose orders, gateway and starts fail as a scenario has it.
#include "sim/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "predict/profile_table.h"

namespace sluice::sim {
namespace {

using gateway::Outcome;
using testing::ElementsAre;
using Kind = Fault::Kind;

// One device "n/0" of the node "n"; a batch of the function "f" takes 10 ms, a start 2 s.
class Bed : public testing::Test {
 protected:
  Bed() {
    profile_.learn({{.function = f_, .revision = 1, .variant = "", .device = {"gpu"}},
                    0,
                    {{{1, kWhole, kWhole}, Millis(10)}}});
    events_.at(clock_.now(), [this] { tick(); });
  }

  // ---- the loop's orders ----
  Result<void> start(const InstanceId& id) {
    const Slice half{.sm = kWhole, .quota = {{500}, {500}}, .memory = 1};
    const Position there{kNone, {id == "a" ? 0 : 500}};
    Instance i{.id = id, .function = f_, .revision = 1, .parts = {{"n/0", half, there}}};
    i.batch = 1;
    return cluster_.start({.instance = i});
  }
  Result<void> route(const std::vector<InstanceId>& ready) {
    FunctionRoute route{.name = f_, .timeout = Seconds(5), .split = {{1, 100}}};
    for (const InstanceId& id : ready)
      route.instances.push_back(
          {.id = id, .revision = 1, .socket = "/" + id, .capability = 1, .ready = true});
    RoutingTable table{.version = ++version_, .functions = {{"f", route}}};
    const auto routed = cluster_.set_routes("gateway", table);
    return routed.ok() ? Result<void>() : routed.error();
  }
  // Begins a fault now, which lasts until end().
  void begin(Kind kind, const std::string& subject, Nanos by = {}, double times = 1) {
    faults_.push_back(std::make_unique<Fault>(
        Fault{.kind = kind, .subject = subject, .lasts = Seconds(1), .by = by, .times = times}));
    cluster_.begin(*faults_.back());
  }
  void end() {
    cluster_.end(*faults_.back());
    faults_.pop_back();
  }
  void pass(Nanos time) {
    const Time end = clock_.now() + time;
    while (events_.next() <= end) {
      clock_.set(events_.next());
      events_.take()();
    }
    clock_.set(end);
    const auto sound = cluster_.check();
    EXPECT_TRUE(sound.ok()) << sound.error().message;
  }

  // "a starting, b ready", as the loop sees them.
  std::string seen() {
    std::string all;
    for (const control::ObservedInstance& o : cluster_.observe().instances)
      all +=
          (all.empty() ? "" : ", ") + o.instance.id + " " + std::string(name_of(o.instance.state));
    return all;
  }
  control::ObservedGateway gateway() { return cluster_.observe().gateways.front(); }

  const FunctionName f_{.name = "f"};
  ManualClock clock_;
  EventQueue events_;
  predict::ProfileTable profile_;
  std::vector<Outcome> answers_;
  std::vector<Nanos> took_;
  SimulatedCluster cluster_{{.devices = {{.device = {.id = "n/0",
                                                     .node = "n",
                                                     .model = "gpu",
                                                     .memory = 1 << 20,
                                                     .sm_quantum = kWhole},
                                          .physics = {}}},
                             .cold_starts = {Seconds(2)},
                             .truths = {}},
                            profile_,
                            clock_,
                            events_,
                            [this](const Answer& a) {
                              answers_.push_back(a.outcome);
                              took_.push_back(a.ended - a.arrived);
                            }};

 private:
  static std::string_view name_of(InstanceState s) {
    constexpr std::string_view kNames[] = {"starting", "ready", "draining", "gone"};
    return kNames[static_cast<size_t>(s)];
  }
  void tick() {
    cluster_.tick();
    events_.at(clock_.now() + FrontDoor::kTick, [this] { tick(); });
  }

  std::vector<std::unique_ptr<Fault>> faults_;
  int64_t version_ = 0;
};
using SimulatedFaults = Bed;

TEST_F(SimulatedFaults, LostOrdersReturnWellAndDoNothing) {
  ASSERT_TRUE(start("a").ok());
  pass(Seconds(2));
  begin(Kind::kLoseOrders, "n");
  EXPECT_TRUE(start("b").ok());
  EXPECT_TRUE(cluster_.stop("a", Nanos(0)).ok());
  pass(Seconds(60));
  EXPECT_EQ(seen(), "a ready");
  end();
  EXPECT_TRUE(start("b").ok());
  EXPECT_EQ(seen(), "a ready, b starting");
}

TEST_F(SimulatedFaults, LateOrdersTakeEffectInTime) {
  begin(Kind::kDelayOrders, "n", Seconds(3));
  EXPECT_TRUE(start("a").ok());
  pass(Millis(2900));
  EXPECT_EQ(seen(), "");
  end();
  pass(Millis(200));
  EXPECT_EQ(seen(), "a starting");
}

TEST_F(SimulatedFaults, AnOrderWhoseAnswerIsLostTookEffect) {
  begin(Kind::kLoseAnswers, "n");
  EXPECT_EQ(start("a").error().kind, ErrorKind::kTimeout);
  EXPECT_EQ(seen(), "a starting");
}

TEST_F(SimulatedFaults, AStartOnASlowNodeTakesTimesAsLong) {
  begin(Kind::kSlowStarts, "n", {}, 2.5);
  ASSERT_TRUE(start("a").ok());
  pass(Millis(4900));
  EXPECT_EQ(seen(), "a starting");
  pass(Millis(200));
  EXPECT_EQ(seen(), "a ready");
}

TEST_F(SimulatedFaults, ASilentGatewayGoesOnWithItsRoutes) {
  ASSERT_TRUE(start("a").ok());
  pass(Seconds(3));
  ASSERT_TRUE(route({"a"}).ok());
  begin(Kind::kSilence, "gateway");
  EXPECT_EQ(route({}).error().kind, ErrorKind::kUnavailable);
  EXPECT_FALSE(gateway().there);
  cluster_.arrive(f_, 1);
  pass(Seconds(1));
  EXPECT_THAT(answers_, ElementsAre(Outcome::kOk));
  end();
  EXPECT_EQ(gateway().traffic.front().ok, 1U);
}

TEST_F(SimulatedFaults, ADeadGatewayLosesItsOpenRequestsAndTheNextOneServesWhatWaited) {
  ASSERT_TRUE(start("a").ok());
  pass(Seconds(3));
  ASSERT_TRUE(route({"a"}).ok());
  const control::ObservedGateway before = gateway();
  cluster_.arrive(f_, 1);  // it runs
  cluster_.arrive(f_, 1);  // it waits at the gateway
  pass(Millis(1));
  begin(Kind::kCrash, "gateway");
  EXPECT_THAT(answers_, ElementsAre(Outcome::kBroken, Outcome::kBroken));
  EXPECT_FALSE(gateway().there);
  EXPECT_FALSE(route({"a"}).ok());
  cluster_.arrive(f_, 1);
  pass(Seconds(2));
  EXPECT_EQ(cluster_.open_requests(), 1U);
  end();
  pass(Seconds(1));
  EXPECT_THAT(answers_, ElementsAre(Outcome::kBroken, Outcome::kBroken, Outcome::kOk));
  EXPECT_GE(took_.back(), Seconds(2));
  const control::ObservedGateway after = gateway();
  EXPECT_EQ(after.routes_version, before.routes_version);  // those that it had kept
  EXPECT_NE(after.started, before.started);
  ASSERT_EQ(after.traffic.size(), 1U);
  EXPECT_EQ(after.traffic.front().requests, 1U);  // it counts from zero
}

}  // namespace
}  // namespace sluice::sim
