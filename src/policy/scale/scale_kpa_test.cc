// `kpa`: Knative's autoscaler, by the values of its own tests and over time.
#include "policy/scale/scale_kpa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/cluster.h"

namespace sluice::policy {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

// A step of a run in Knative's autoscaler_test.go: up and down rate 10.
struct Step {
  double now, target;
  int ready;
  double stable, panic;
  int wanted;
  bool panics;
};

void play(std::vector<Step> steps) {
  KpaSettings settings;
  settings.max_scale_up_rate = settings.max_scale_down_rate = 10;
  KpaPanic panic;
  for (const Step& s : steps) {
    EXPECT_EQ(
        wanted_instances(settings, {s.stable, s.panic, s.target, s.ready, true}, panic, s.now),
        s.wanted)
        << s.now << " s, stable " << s.stable;
    EXPECT_EQ(panic.since >= 0, s.panics) << s.now << " s, stable " << s.stable;
  }
}

TEST(KnativesVectors, StableMode) {
  play({{100, 10, 1, 50, 10, 5, false}});
  play({{100, 10, 1, 100, 10, 10, false}});
}

TEST(KnativesVectors, PanicMode) {
  play({{100, 10, 1, 50, 50, 5, true}});
  play({{100, 1, 10, 11, 25, 25, true},
        {130, 1, 40, 30, 41, 41, true},
        {162, 1, 55, 50, 56, 50, false}});
  play({{100, 10, 1, 100, 100, 10, true},
        {101, 10, 10, 100, 1000, 100, true},
        {131, 10, 10, 1, 1, 100, true},
        {162, 10, 10, 1, 1, 1, false}});
}

TEST(KnativesVectors, Rates) {
  play({{100, 10, 1, 1000, 1001, 10, true}});
  play({{100, 10, 10, 1000, 1001, 100, true}});
  play({{100, 10, 100, 1, 1, 10, false}});
  play({{100, 10, 10, 1, 1, 1, false}});
  play({{100, 10, 0, 1000, 888, 10, true}});
}

TEST(KpaWindow, IsTheMeanOfTheSecondsSeen) {
  KpaSamples samples;
  for (int i = 0; i < 5; ++i) record(samples, i, i + 1, 5);
  EXPECT_EQ(window_average(samples, 4, 5), 3);
  EXPECT_EQ(window_average(samples, 6, 5), 4);  // (3 + 4 + 5) ÷ 3
  EXPECT_EQ(window_average(samples, 10, 5), 0);
  record(samples, 6, 91, 5);
  EXPECT_EQ(window_average(samples, 6, 5), 20.6);  // a second without a sample is 0
  record(samples, 66, 1984, 5);
  EXPECT_EQ(window_average(samples, 66, 5), 1984);
}

TEST(Kpa, ScalesWithinBoundsToZeroAndFromZero) {
  ClusterFixture c(4);
  c.bundle = "kpa";
  FunctionSpec& spec = c.function("a", Millis(100), Millis(10));
  spec.inference().container_concurrency = 10;
  spec.inference().min_replicas = 0;
  spec.inference().max_replicas = 3;
  c.tick(Seconds(1));
  EXPECT_THAT(c.instances("a"), SizeIs(1)) << "initial_scale";
  c.view("a").concurrency = 100;
  c.tick(Seconds(1));
  EXPECT_THAT(c.instances("a"), SizeIs(3)) << "maxReplicas";
  c.view("a").concurrency = 0;
  for (int s = 0; s < 60; ++s) c.tick(Seconds(1));
  EXPECT_THAT(c.instances("a"), SizeIs(3)) << "panic";
  for (int s = 0; s < 120; ++s) c.tick(Seconds(1));
  EXPECT_THAT(c.instances("a"), IsEmpty());
  c.view("a").concurrency = 0.1;
  c.tick(Seconds(1));
  EXPECT_THAT(c.instances("a"), SizeIs(1));
}

}  // namespace
}  // namespace sluice::policy
