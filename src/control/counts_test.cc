#include "control/counts.h"

#include <gtest/gtest.h>

namespace sluice::control {
namespace {

const FunctionName kF{.name = "f"};
constexpr UnixMillis kWall = 1'000'000'000'000;

class CountsTest : public testing::Test {
 protected:
  CountsTest() {
    functions[kF].stored.name = kF;
    seen.nodes = {{.node = {.name = "n"}}};
    seen.gateways = {{.name = "gateway", .there = true, .started = 1}};
  }
  // The gateway has counted so many requests since it started.
  void tick(Counts& counts, uint64_t requests, Nanos after = Millis(250)) {
    if (seen.gateways[0].there)
      observe(counts, {.function = kF, .requests = requests, .ok = requests});
    count(counts, after);
  }
  void observe(Counts& counts, const ObservedTraffic& traffic) {
    std::vector<ObservedGateway> gateways = seen.gateways;
    gateways[0].traffic = {traffic};
    counts.observe(gateways);
  }
  void count(Counts& counts, Nanos after) {
    now += after;
    wall += after / Millis(1);
    counts.count(seen, functions, now, wall);
    seconds += counts.account(seen, functions, accounting, now, wall);
  }
  std::vector<uint32_t> arrivals(int n) { return functions[kF].arrivals->per_second(n); }
  uint64_t requests() { return functions[kF].traffic.totals().requests; }

  Functions functions;
  Observation seen;
  Accounting accounting;
  Time now{std::chrono::hours(1)};
  UnixMillis wall = kWall;
  int seconds = 0;
};

TEST_F(CountsTest, CountsDifferencesAndSecondsAreWhole) {
  Counts counts(Seconds(1));
  for (int n = 0; n <= 12; ++n) tick(counts, 100 + 10 * static_cast<uint64_t>(n));
  EXPECT_EQ(seconds, 3);
  EXPECT_NEAR(functions[kF].traffic.request_rate(Seconds(2)), 40, 0.01);
  ASSERT_GE(counts.rates().size(), 2u);
  EXPECT_NEAR(counts.rates().back().rate, 40, 0.01);
  counts.written();
  EXPECT_TRUE(counts.rates().empty());
}

TEST_F(CountsTest, ArrivalsAreKeptPerSecondInInferences) {
  Counts counts(Seconds(1));
  uint64_t n = 100;
  for (int t = 0; t < 4; ++t) tick(counts, n);
  for (int t = 0; t < 4; ++t) tick(counts, n += 10);
  for (int t = 0; t < 4; ++t) tick(counts, n);
  EXPECT_EQ(arrivals(3), (std::vector<uint32_t>{40, 0}));
  observe(counts, {.function = kF, .requests = 2 * n, .ok = 2 * n, .inferences = 3 * 2 * n});
  count(counts, Seconds(1));
  EXPECT_EQ(arrivals(1), std::vector<uint32_t>{static_cast<uint32_t>(3 * n)});
}

TEST_F(CountsTest, AFunctionOfADeletedOnesNameHasNoneOfItsRequests) {
  Counts counts(Seconds(1));
  for (int n = 0; n < 8; ++n) tick(counts, 100 + 10 * static_cast<uint64_t>(n));
  const auto create_anew = [&] {
    counts.forget(kF, functions[kF].traffic.last(), now);
    functions[kF] = {};
    functions[kF].stored.name = kF;
  };
  create_anew();
  tick(counts, 170);
  EXPECT_EQ(requests(), 0u);
  tick(counts, 175);
  EXPECT_EQ(requests(), 5u) << "the gateway has not yet seen that it was deleted";
  create_anew();
  tick(counts, 3);
  EXPECT_EQ(requests(), 3u) << "it counts from zero again";
  counts.forget(kF, {.function = kF, .requests = 50}, now);
  functions.clear();
  count(counts, Seconds(61));
  functions[kF].stored.name = kF;
  tick(counts, 60);
  EXPECT_EQ(requests(), 60u) << "too long ago";
}

TEST_F(CountsTest, ASecondThatIsLongerHasTheRateOfItsTime) {
  Counts counts(Seconds(1));
  for (uint64_t n = 0; n <= 6; ++n) tick(counts, 35 * n, Millis(700));
  ASSERT_GE(counts.rates().size(), 2u);
  EXPECT_NEAR(counts.rates().back().rate, 50, 0.01) << "70 in 1.4 s";
}

TEST_F(CountsTest, ARestartedGatewayCountsFromZeroAlsoWhereItIsAheadAlready) {
  Counts counts(Seconds(1));
  tick(counts, 0);
  tick(counts, 100);
  ++seen.gateways[0].started;
  tick(counts, 150);
  EXPECT_EQ(requests(), 250u);
}

TEST_F(CountsTest, ArrivalsOfATimeWithoutTheGatewayAreSpreadOverIt) {
  Counts counts(Seconds(1));
  tick(counts, 0);
  tick(counts, 0, Seconds(1));
  seen.gateways[0].there = false;
  for (int n = 0; n < 4; ++n) tick(counts, 0, Seconds(1));
  seen.gateways[0].there = true;
  tick(counts, 100, Seconds(1));
  EXPECT_EQ(arrivals(5), (std::vector<uint32_t>{15, 20, 20, 20, 20}))
      << "it was away from the first quarter of the first second on";
}

TEST_F(CountsTest, LatenciesAreOfTheLastTenSeconds) {
  Counts counts(Seconds(1));
  ObservedTraffic t{.function = kF};
  const auto second = [&](int quick, int slow) {
    for (int n = 0; n < quick; ++n) t.latency.add(Millis(10));
    for (int n = 0; n < slow; ++n) t.latency.add(Millis(80));
    t.requests = t.ok = t.latency.count();
    observe(counts, t);
    count(counts, Seconds(1));
  };
  for (int n = 0; n < 11; ++n) second(18, 2);
  const LatencyQuantiles latency = functions[kF].latency;
  EXPECT_NEAR(millis(latency.p50), 10, 1);
  EXPECT_NEAR(millis(latency.p95), 80, 8);
  EXPECT_NEAR(millis(latency.p99), 80, 8);
  for (int n = 0; n < 11; ++n) second(0, 0);
  EXPECT_EQ(functions[kF].latency, LatencyQuantiles{});
}

TEST_F(CountsTest, WithoutItsGatewayNothingIsCountedAndNothingIsLost) {
  Counts counts(Seconds(1));
  tick(counts, 100);
  tick(counts, 110);
  const uint64_t before = requests();
  seen.gateways[0].there = false;
  for (int n = 0; n < 8; ++n) tick(counts, 0);
  EXPECT_EQ(requests(), before);
  seen.gateways[0].there = true;
  tick(counts, 200);
  EXPECT_EQ(requests(), before + 90);
  EXPECT_NEAR(functions[kF].traffic.request_rate(Seconds(1)), 40, 0.01) << "over all that time";
}

TEST_F(CountsTest, TheNewestOfSeveralObservationsCounts) {
  Counts counts(Seconds(1));
  const FunctionName a{.name = "a"}, b{.name = "b"}, c{.name = "c"};
  for (const FunctionName& name : {a, b, c}) functions[name].stored.name = name;
  tick(counts, 0);
  const auto observe = [&](std::vector<ObservedTraffic> traffic) {
    std::vector<ObservedGateway> gateways = seen.gateways;
    gateways[0].traffic = std::move(traffic);
    counts.observe(gateways);
  };
  observe({{.function = c, .requests = 1}, {.function = a, .requests = 2}});
  observe({{.function = b, .requests = 3}, {.function = a, .requests = 5}});
  tick(counts, 7);
  EXPECT_EQ(functions[a].traffic.totals().requests, 5u);
  EXPECT_EQ(functions[b].traffic.totals().requests, 3u);
  EXPECT_EQ(functions[c].traffic.totals().requests, 1u);
  EXPECT_EQ(requests(), 7u);
}

TEST_F(CountsTest, ALoopThatRestartsGoesOnWhereTheOneBeforeStood) {
  Counts first(Seconds(1));
  for (int n = 0; n <= 8; ++n) tick(first, 100 + 10 * static_cast<uint64_t>(n));
  const uint64_t before = requests();
  Counts second(Seconds(1));
  second.restore(first.to_json());
  now = Time{std::chrono::hours(7)};  // another boot's clock
  tick(second, 230, Seconds(1));
  EXPECT_EQ(requests(), before + 50);
  EXPECT_EQ(seconds, 3) << "a second by the wall's clock";
}

}  // namespace
}  // namespace sluice::control
