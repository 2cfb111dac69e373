#include "sim/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/log.h"
#include "policy/bundle.h"
#include "sim/report.h"
#include "sim/scenario_file.h"
#include "trace/text_file.h"

namespace sluice::sim {
namespace {

Scenario bundled(const std::string& name) {
  const std::string folder = SLUICE_SCENARIOS;
  auto scenario = parse_scenario(*trace::read_text(folder + "/" + name), name, folder);
  EXPECT_TRUE(scenario.ok()) << scenario.error().message;
  return std::move(scenario).value_or({});
}

Scenario burst() {
  return bundled("burst.yaml");
}

std::string bytes(const Scenario& s, const std::string& policy) {
  const auto outcome = simulate(s, policy);
  EXPECT_TRUE(outcome.ok()) << outcome.error().message;
  return to_json(s, std::vector{*outcome}).dump();
}

class Simulation : public testing::Test {
 protected:
  Simulation() { spdlog::set_level(spdlog::level::off); }
};

TEST_F(Simulation, TheSameSeedGivesTheSameBytesAndAnotherDoesNot) {
  Scenario s = burst();
  s.cluster.truths[s.functions[0].name] = {.slowness = 1.1, .variation = 0.2};
  const std::string first = bytes(s, "has-gpu");
  EXPECT_EQ(first, bytes(s, "has-gpu"));
  s.seed = 2;
  EXPECT_NE(first, bytes(s, "has-gpu"));
  s.cluster.stepping = Stepping::kFluid;
  EXPECT_EQ(bytes(s, "has-gpu"), bytes(s, "has-gpu"));
}

// Devices whose clients meet now and then: at most an eighth of the latency apart.
TEST_F(Simulation, AFluidIsNearTheExactDeviceAtModerateLoad) {
  Scenario s = burst();
  for (Load& load : s.loads)
    for (RateStep& step : load.plan) step.rate *= 2;
  for (const char* policy : {"has-gpu", "has-gpu-paper", "fast-gshare", "infless"}) {
    const auto played = [&](Stepping stepping) {
      s.cluster.stepping = stepping;
      return simulate(s, policy);
    };
    const auto exact = played(Stepping::kExact), fluid = played(Stepping::kFluid);
    ASSERT_TRUE(exact.ok() && fluid.ok());
    for (size_t k = 0; k < exact->functions.size(); ++k) {
      const FunctionOutcome &e = exact->functions[k], &f = fluid->functions[k];
      SCOPED_TRACE(policy + (" " + e.function.name));
      EXPECT_NEAR(millis(f.p50), millis(e.p50), millis(e.p50) / 8);
      EXPECT_NEAR(millis(f.p95), millis(e.p95), millis(e.p95) / 8);
      EXPECT_EQ(f.requests, e.requests);
      EXPECT_NEAR(static_cast<double>(f.violations[0]), static_cast<double>(e.violations[0]),
                  0.04 * static_cast<double>(e.requests));
      EXPECT_NEAR(f.account.slice_seconds, e.account.slice_seconds, 0.05 * e.account.slice_seconds);
    }
  }
}

TEST_F(Simulation, EveryRequestIsCountedOnceUnderEveryPolicy) {
  Scenario s = burst();
  s.duration = Seconds(60);
  for (const policy::Bundle& bundle : policy::bundles()) {
    SCOPED_TRACE(bundle.name);
    const auto o = simulate(s, std::string(bundle.name));
    ASSERT_TRUE(o.ok()) << o.error().message;
    ASSERT_EQ(o->functions.size(), 2u);
    for (const FunctionOutcome& f : o->functions) {
      EXPECT_GT(f.requests, 900u) << f.function.name;
      EXPECT_EQ(f.requests, f.ok + f.shed + f.failed + f.timed_out + f.open);
      EXPECT_GE(f.violations[0], f.violations[1]);
      EXPECT_LE(f.p50, f.p99);
    }
    EXPECT_LE(o->devices_max, 2);
  }
}

// 25/s, of which one instance does ten.
TEST_F(Simulation, AFunctionThatWasNeverMeasuredFollowsItsLoadUnderHasGpu) {
  const Scenario s = bundled("unprofiled.yaml");
  for (const uint64_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(seed);
    Scenario seeded = s;
    seeded.seed = seed;
    const auto grows = simulate(seeded, "has-gpu"), stays = simulate(seeded, "fast-gshare");
    ASSERT_TRUE(grows.ok() && stays.ok());
    const FunctionOutcome &g = grows->functions[0], &f = stays->functions[0];
    EXPECT_LT(g.violations[0], g.requests / 10);
    EXPECT_GT(f.violations[0], f.requests / 2);
    EXPECT_GE(g.account.starts, 3u);
    EXPECT_LE(g.account.starts, 8u);
    EXPECT_GE(g.account.stops, g.account.starts - 2) << "the load has gone";
    EXPECT_EQ(f.account.starts, 1u);
  }
}

TEST_F(Simulation, ALoadWithASeedHasTheArrivalsOfSluiceLoad) {
  Scenario s = burst();
  s.loads[0].seed = 77;
  s.settle = Nanos(0);
  uint64_t sent = 0;
  for (Arrivals arrivals(s.loads[0].plan, s.loads[0].gaps, 77); const auto at = arrivals.next();)
    sent += *at < s.duration;
  for (const uint64_t seed : {1u, 2u}) {
    s.seed = seed;
    const auto o = simulate(s, "has-gpu");
    ASSERT_TRUE(o.ok()) << o.error().message;
    EXPECT_EQ(o->functions[1].requests, sent) << o->functions[1].function.name;
  }
}

// The bundle's `planned` is `shares` on a GPU: an eager server leaves most of the device to
// training.
TEST_F(Simulation, OnAGpuAnEagerServerAndATrainingJobShareTheDevice) {
  Scenario both = bundled("shared_gpu.yaml");
  both.duration = Seconds(25);
  Scenario alone = both;
  alone.jobs.clear();
  const auto play = [](const Scenario& s, const std::string& policy) {
    auto o = simulate(s, policy);
    EXPECT_TRUE(o.ok()) << o.error().message;
    return std::move(o).value_or({});
  };
  const Outcome serves = play(alone, "has-gpu"), shared = play(both, "has-gpu"),
                turns = play(both, "has-gpu-paper");
  EXPECT_LE(shared.functions[0].p50, serves.functions[0].p50 * 115 / 100);
  EXPECT_LE(shared.functions[0].p95, serves.functions[0].p95 * 115 / 100);
  const double whole = 32 / 0.06;  // samples a second: a step of 32 takes 60 ms
  EXPECT_GE(shared.all_jobs.goodput, 0.7 * whole);
  EXPECT_LE(turns.all_jobs.goodput, 0.6 * whole) << "`window` holds the device for its host's time";
  EXPECT_EQ(bytes(both, "has-gpu"), bytes(both, "has-gpu"));
}

TEST_F(Simulation, AGpuIsNoFluid) {
  Scenario s = bundled("shared_gpu.yaml");
  s.cluster.stepping = Stepping::kFluid;
  const auto o = simulate(s, "has-gpu");
  ASSERT_FALSE(o.ok());
  EXPECT_THAT(o.error().message, testing::HasSubstr("devices of kind gpu are exact"));
}

// One server, Poisson arrivals at half its capacity, batches of a fixed time t: M/D/1. Its sojourn
// time has the 0.9-quantile 2.515 t and the 0.95-quantile 3.05 t (Erlang, 1909).
TEST_F(Simulation, AQueueIsAsLongAsTheoryHasIt) {
  Scenario s = burst();
  s.functions.resize(1);
  FunctionSpec& f = s.functions[0];
  f.inference().slo.latency = Nanos(0);  // first come, first served
  f.inference().batching.max_size = 1;
  f.slice = Slice{.sm = kWhole, .quota = {kWhole, kWhole}};
  for (control::Profile& p : s.profiles) p.points = {{{1, kWhole, kWhole}, Millis(20)}};
  s.duration = Seconds(4000);
  s.cluster.hop = Nanos(0);
  s.loads = {{.function = f.name, .plan = {{s.duration, 25}}}};
  const auto o = simulate(s, "fixed");
  ASSERT_TRUE(o.ok()) << o.error().message;
  EXPECT_NEAR(millis(o->functions[0].p90), 2.515 * 20, 1);
  EXPECT_NEAR(millis(o->functions[0].p95), 3.05 * 20, 1.5);
}

TEST_F(Simulation, SilencesOfANodeAddUp) {
  Scenario s = burst();
  s.duration = Seconds(60);
  const std::string node = s.cluster.devices[0].device.node;
  const auto p50 = [&](std::vector<Fault> faults) {
    s.faults = std::move(faults);
    const auto o = simulate(s, "has-gpu");
    EXPECT_TRUE(o.ok());
    return o->functions[0].p50;
  };
  using Kind = Fault::Kind;
  EXPECT_EQ(p50({{Seconds(5), Kind::kSilence, node, Seconds(10)},
                 {Seconds(7), Kind::kSilence, node, Seconds(40)}}),
            p50({{Seconds(5), Kind::kSilence, node, Seconds(42)}}));
}

TEST_F(Simulation, AJumpOfPeoplesClockChangesNothing) {
  Scenario s = burst();
  const std::string plain = bytes(s, "has-gpu");
  s.faults = {{.at = Seconds(20),
               .kind = Fault::Kind::kJumpClock,
               .subject = "forward",
               .by = Seconds(86'400)},
              {.at = Seconds(40),
               .kind = Fault::Kind::kJumpClock,
               .subject = "back",
               .by = Seconds(2 * 86'400)}};
  EXPECT_EQ(plain, bytes(s, "has-gpu"));
}

TEST_F(Simulation, ASlowFunctionIsLateWhateverItsProfileSays) {
  Scenario s = burst();
  const auto bert = [&] {
    const auto o = simulate(s, "has-gpu");
    EXPECT_TRUE(o.ok());
    return o->functions[0];
  };
  const FunctionOutcome before = bert();
  s.faults = {{.at = Seconds(20), .kind = Fault::Kind::kSlow, .subject = "bert", .times = 10}};
  const FunctionOutcome after = bert();
  EXPECT_GT(after.p50, 2 * before.p50);
  EXPECT_GT(after.violations[0], before.violations[0]);
}

TEST_F(Simulation, ARequestThatWaitsForAStartIsAColdOne) {
  Scenario s = burst();
  s.duration = Seconds(200);
  s.functions.resize(1);
  InferenceSpec& f = s.functions[0].inference();
  f.min_replicas = 0;
  f.scale_to_zero_after = Seconds(5);
  const FunctionName name = s.functions[0].name;
  s.loads = {{.function = name, .plan = {}, .gaps = {}, .times = {Seconds(20), Seconds(180)}}};
  const auto o = simulate(s, "kpa");
  ASSERT_TRUE(o.ok()) << o.error().message;
  EXPECT_EQ(o->functions[0].ok, 2U);
  EXPECT_EQ(o->functions[0].cold_starts, 1U);  // the first comes before the first minute is over
  EXPECT_GT(o->functions[0].p99, Seconds(2));
}

TEST_F(Simulation, FaultsCostRequestsAndTheLoopMakesUpForThem) {
  Scenario s = burst();
  s.faults = {{Seconds(30), Fault::Kind::kKill, "bert", {}},
              {Seconds(50), Fault::Kind::kFail, s.cluster.devices[0].device.id, {}},
              {Seconds(70), Fault::Kind::kSilence, s.cluster.devices[1].device.node, Seconds(5)}};
  const auto o = simulate(s, "has-gpu");
  ASSERT_TRUE(o.ok()) << o.error().message;
  uint64_t starts = 0;
  for (const FunctionOutcome& f : o->functions) {
    starts += f.account.starts;
    EXPECT_GT(f.ok, f.requests / 2) << f.function.name;
    EXPECT_EQ(f.requests, f.ok + f.shed + f.failed + f.timed_out + f.open);
  }
  EXPECT_GE(starts, 1u);
}

TEST_F(Simulation, ItStopsWhenAskedAndKeepsWhatWasDone) {
  const Scenario s = burst();
  Watch watch;
  int rows = 0;
  watch.on_second = [&](double done) { return done * seconds(s.duration) < 29.5; };
  watch.on_row = [&](const TimelineRow&) { ++rows; };
  const auto o = simulate(s, "has-gpu", watch);
  ASSERT_TRUE(o.ok());
  EXPECT_TRUE(o->stopped);
  EXPECT_EQ(o->simulated, Seconds(20));
  EXPECT_EQ(rows, 60);
}

// One minute after the first half, of instances: quotas may follow the load. `bench/run steady`
// plays ten.
TEST_F(Simulation, InstancesThatASteadyLoadGivesBackAreSeldomStartedAgain) {
  Scenario s = bundled("steady.yaml");
  s.duration = s.settle + Seconds(60);
  for (const double rate : {1.0, 2.0, 5.0, 8.0, 12.0})
    for (s.seed = 1; s.seed <= 3; ++s.seed) {
      SCOPED_TRACE(std::to_string(rate) + "/s, seed " + std::to_string(s.seed));
      for (RateStep& step : s.loads[0].plan) step.rate = rate;
      int64_t before = 0, given_back = 0, taken_again = 0;
      Watch watch;
      watch.on_row = [&](const TimelineRow& row) {
        if (row.second >= s.settle / Seconds(1)) {
          given_back += row.instances < before;
          taken_again += given_back > 0 && row.instances > before;
        }
        before = row.instances;
      };
      const auto o = simulate(s, "has-gpu", watch);
      ASSERT_TRUE(o.ok()) << o.error().message;
      EXPECT_LE(taken_again, 1);
      EXPECT_LE(o->functions[0].violations[0], 0.03 * o->functions[0].requests + 1);
    }
}

}  // namespace
}  // namespace sluice::sim
