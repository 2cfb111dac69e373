// What timings say of a unit, from the first on.
#include "hook/unit_costs.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

namespace sluice::hook {
namespace {

struct UnitCostsTest : testing::Test {
  void learn(uint64_t key, std::initializer_list<uint64_t> timings) {
    for (const uint64_t ns : timings) costs->learn(key, ns);
  }
  const std::unique_ptr<UnitCosts> costs{new UnitCosts()};
};

TEST_F(UnitCostsTest, IsReliedOnAfterAFewTimings) {
  EXPECT_EQ(costs->guess(7), 0u);
  learn(7, {1000});
  EXPECT_EQ(costs->guess(7), 1000u);
  EXPECT_EQ(costs->expected(7), 0u);
  learn(7, {1100, 1200});
  EXPECT_EQ(costs->expected(7), 1100u);
  EXPECT_EQ(costs->expected(8), 0u);
}

TEST_F(UnitCostsTest, FollowsAChangeAndNotAnOutlier) {
  learn(7, {1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000});
  learn(7, {1'000'000});  // its thread was off the processor
  EXPECT_LE(costs->expected(7), 1400u);
  for (int i = 0; i < 100; ++i) learn(7, {5000});
  EXPECT_NEAR(static_cast<double>(costs->expected(7)), 5000, 50);
}

TEST_F(UnitCostsTest, IsTheMeanOfWhatVaries) {
  std::mt19937 random(20261121);
  double sum = 0;
  for (int i = 0; i < 4000; ++i) {
    learn(7, {random() % 2 == 0 ? 1000u : 3000u});
    if (i >= 100) sum += static_cast<double>(costs->expected(7));
  }
  EXPECT_NEAR(sum / 3900, 2000, 60);
}

TEST_F(UnitCostsTest, NeighboursSayNothingWhereItWasTimedAlone) {
  learn(7, {1000, 1000, 1000});
  for (int i = 0; i < 100; ++i) costs->learn_beside(7, i % 2 == 0 ? 4000 : 500);
  EXPECT_EQ(costs->expected(7), 1000u);
}
TEST_F(UnitCostsTest, ElseTheLeastOfTheLastTimingsBesideThemIsTaken) {
  for (const uint64_t ns : {4000, 3000, 9000}) costs->learn_beside(7, ns);
  EXPECT_EQ(costs->expected(7), 3000u);
  for (int i = 0; i < 100; ++i) costs->learn_beside(7, 8000);
  EXPECT_EQ(costs->expected(7), 8000u) << "it has grown";
  learn(7, {2000});
  EXPECT_EQ(costs->expected(7), 2000u) << "alone";
}

TEST_F(UnitCostsTest, ForgetsAndLearnsAnew) {
  learn(7, {1000, 1000, 1000});
  costs->forget(7);
  EXPECT_EQ(costs->guess(7), 0u);
  learn(7, {50});
  EXPECT_EQ(costs->guess(7), 50u);
}

TEST_F(UnitCostsTest, AKernelWhoseModuleMayHaveGoneIsTimedAgain) {
  const int a = 0;
  const uint64_t kernel = kernel_key(&a, 1, 1, 1), graph = graph_key(&a);
  const uint64_t copy = copy_key(CopyKind::kSet);
  for (const uint64_t key : {kernel, graph, copy}) learn(key, {1000, 1000, 1000});
  costs->doubt_kernels();
  EXPECT_EQ(costs->expected(kernel), 0u);
  EXPECT_EQ(costs->guess(kernel), 1000u);
  EXPECT_TRUE(costs->wants(kernel, false));
  EXPECT_EQ(costs->expected(graph), 1000u);
  EXPECT_EQ(costs->expected(copy), 1000u);
  learn(kernel, {50});
  EXPECT_EQ(costs->guess(kernel), 50u);
}

// More units than there is room for: some are forgotten, none has another's cost.
TEST_F(UnitCostsTest, AFullTableMixesNothingUp) {
  constexpr uint64_t kUnits = 4u << UnitCosts::kBits;
  for (uint64_t key = 1; key <= kUnits; ++key) learn(key, {key, key, key});
  uint64_t known = 0;
  for (uint64_t key = 1; key <= kUnits; ++key) {
    const uint64_t cost = costs->expected(key);
    EXPECT_TRUE(cost == 0 || cost == key) << key;
    known += cost != 0;
  }
  EXPECT_GT(known, (1u << UnitCosts::kBits) / 2);
}

TEST_F(UnitCostsTest, KernelsAreKnownByFunctionAndSizeOfGrid) {
  const int a = 0, b = 0;
  EXPECT_EQ(kernel_key(&a, 100, 1, 1), kernel_key(&a, 1, 1, 101));
  EXPECT_NE(kernel_key(&a, 1, 1, 1), kernel_key(&a, 1000, 1, 1));
  EXPECT_NE(kernel_key(&a, 1, 1, 1), kernel_key(&b, 1, 1, 1));
  EXPECT_NE(kernel_key(&a, ~0u, ~0u, ~0u), graph_key(&a));
}

}  // namespace
}  // namespace sluice::hook
