#include "learn/graph_network.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"

namespace sluice::learn {
namespace {

using Kind = Interconnect::Kind;

constexpr double kMiB = 1 << 20;

double silu(double z) {
  return z / (1 + std::exp(-z));
}

// Two GPUs with an NVLink, one of them on each of two CPUs, under one switch.
Interconnect small() {
  Interconnect g;
  g.nodes = {{.parent = 2, .server = 0, .nvlink_ports = 1},
             {.parent = 3, .server = 0, .nvlink_ports = 1},
             {.kind = Kind::kCpu, .parent = 4, .server = 0, .cores = 48},
             {.kind = Kind::kCpu, .parent = 4, .server = 0, .cores = 24},
             {.kind = Kind::kSwitch}};
  g.edges = {{0, 1, 20, 1}, {0, 2, 10}, {1, 3, 10}, {2, 3, 5}, {2, 4, 5}, {3, 4, 5}};
  return g;
}

GraphNetwork random_network(Random& random, NodeFeatures features,
                            const std::vector<size_t>& sizes) {
  const auto some = [&](size_t count) {
    std::vector<double> all(count);
    for (double& x : all) x = random.normal();
    return all;
  };
  GraphNetwork n{.features = features};
  size_t inputs = kNodeFeatures;
  for (const size_t size : sizes) {
    n.layers.push_back({inputs, size, some(inputs * size), some(size)});
    inputs = size;
  }
  n.last = some(inputs);
  n.bias = random.normal();
  return n;
}

// As the header has it, over a matrix of all pairs of nodes.
double by_formula(const GraphNetwork& n, const GraphInput& input, double bytes) {
  const size_t count = input.nodes();
  std::vector<std::vector<double>> between(count, std::vector<double>(count));
  for (const GraphInput::Term& t : input.terms())
    between[static_cast<size_t>(t.to)][static_cast<size_t>(t.from)] = t.weight;
  std::vector<double> h = input.features(bytes, 4);
  for (const GraphNetwork::Layer& l : n.layers) {
    std::vector<double> next;
    for (size_t v = 0; v < count; ++v)
      for (size_t i = 0; i < l.outputs; ++i) {
        double z = l.bias[i];
        for (size_t j = 0; j < l.inputs; ++j)
          for (size_t u = 0; u < count; ++u)
            z += l.weights[j * l.outputs + i] * between[v][u] * h[u * l.inputs + j];
        next.push_back(silu(z));
      }
    h = next;
  }
  double y = n.bias;
  for (size_t v = 0; v < count; ++v)
    for (size_t i = 0; i < n.last.size(); ++i)
      y += input.pooling()[v] * n.last[i] * h[v * n.last.size() + i];
  return y;
}

TEST(GraphNetwork, IsItsFormulaWhateverItsSizeAndWeights) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    for (const NodeFeatures features : {NodeFeatures::kPrinted, NodeFeatures::kPlacement}) {
      const GraphNetwork n =
          random_network(random, features, {1 + random.below(9), 1 + random.below(9)});
      ASSERT_TRUE(n.is_whole());
      const GraphInput input(small(), 20, features);
      const double bytes = std::exp(20 * random.uniform()), wanted = by_formula(n, input, bytes);
      EXPECT_NEAR(log_all_reduce_seconds(n, input, bytes), wanted, 1e-9 * (1 + std::abs(wanted)));
    }
  }
}

// By hand: one unit that sees a GPU's cores. GPU 0 has two neighbours, as has GPU 1; the CPUs have
// three. Each GPU sees its neighbour's 48 or 24 cores (scaled 1 and 0.5) over the NVLink.
TEST(GraphNetwork, AsPrintedOnlyGpusSayAnything) {
  GraphNetwork n;
  n.layers = {{kNodeFeatures, 1, std::vector<double>(kNodeFeatures), {0}}};
  n.layers[0].weights[4] = 1;
  n.last = {2};
  n.bias = -3;
  const GraphInput input(small(), 20, NodeFeatures::kPrinted);
  const double gpus = silu(0.5 * 20 / 20 / 2) + silu(1.0 * 20 / 20 / 2);
  const double cpus = silu(1.0 * 10 / 20 / std::sqrt(6)) + silu(0.5 * 10 / 20 / std::sqrt(6));
  EXPECT_NEAR(log_all_reduce_seconds(n, input, kMiB), -3 + 2 * (gpus / 2 + cpus / 2), 1e-12);
  EXPECT_EQ(input.pooling(), (std::vector<double>{0.5, 0.5, 0.5, 0.5, 1}));
  const std::vector<double> features = input.features(kMiB, 2);
  for (size_t i = 2 * kNodeFeatures; i < features.size(); ++i) EXPECT_EQ(features[i], 0);
  EXPECT_NEAR(features[2], 20.0 / 30, 1e-12);  // log₂ of the bytes
  EXPECT_EQ(features[3], 0.5);
}

TEST(GraphNetwork, NothingIsExchangedByOneGpuOrWithoutBytes) {
  Random random(1);
  const GraphNetwork n = random_network(random, NodeFeatures::kPlacement, {4});
  const GraphInput input(small(), 20, NodeFeatures::kPlacement);
  const GraphInput one(subgraph(small(), std::vector<int>{1}), 20, NodeFeatures::kPlacement);
  EXPECT_EQ(all_reduce_seconds(n, one, kMiB), 0);
  EXPECT_EQ(all_reduce_seconds(n, input, 0), 0);
  EXPECT_GT(all_reduce_seconds(n, input, kMiB), 0);
}

TEST(GraphNetwork, IsNotWholeWhereAPartHasAnotherSize) {
  Random random(1);
  GraphNetwork n = random_network(random, NodeFeatures::kPrinted, {3, 5});
  EXPECT_TRUE(n.is_whole());
  n.layers[1].bias.pop_back();
  EXPECT_FALSE(n.is_whole());
  n.layers.clear();
  EXPECT_FALSE(n.is_whole());
}

}  // namespace
}  // namespace sluice::learn
