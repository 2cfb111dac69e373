// A shard of `bench/run chaos`.
#include "sim/chaos.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/log.h"

namespace sluice::sim {
namespace {

class Chaos : public testing::Test {
 protected:
  Chaos() { spdlog::set_level(spdlog::level::off); }
};

TEST_F(Chaos, WhateverHappensTheInvariantsHold) {
  std::set<std::string> bundles;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Scenario s = random_scenario(seed);
    bundles.insert(s.policies.front());
    if (const auto fault = broken(s))
      ADD_FAILURE() << "seed " << seed << ": " << *fault << "\n" << summary_of(shrunk(s));
  }
  EXPECT_GE(bundles.size(), 5U);
}

TEST_F(Chaos, AFailingRunShrinksToWhatMatters) {
  Scenario s;
  for (uint64_t seed = 1; s.functions.size() < 4; ++seed) s = random_scenario(seed);
  s.functions[1].inference().slo.latency = Nanos(1);  // refused, whatever else is there
  ASSERT_TRUE(broken(s));
  const Scenario less = shrunk(s);
  EXPECT_TRUE(broken(less));
  EXPECT_EQ(less.functions.size(), 1U);
  EXPECT_TRUE(less.faults.empty() && less.loads.empty());
  EXPECT_LE(less.duration, Seconds(1));
}

}  // namespace
}  // namespace sluice::sim
