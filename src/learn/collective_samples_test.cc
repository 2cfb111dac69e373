#include "learn/collective_samples.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <vector>

namespace sluice::learn {
namespace {

using GpuType = Interconnect::GpuType;

// Rings of a set of the first server's GPUs.
int rings_of(const Interconnect& cluster, unsigned set) {
  std::vector<int> gpus;
  for (int i = 0; i < 8; ++i)
    if ((set >> i & 1U) != 0) gpus.push_back(i);
  return shape_of(subgraph(cluster, gpus)).rings;
}

TEST(Cluster, FewFoursOfTheMeshHaveARing) {
  const Interconnect cluster = cluster_of(GpuType::kV100, 1);
  int without = 0;
  for (unsigned set = 0; set < 256; ++set)
    if (std::popcount(set) == 4) without += rings_of(cluster, set) == 0;
  EXPECT_EQ(without, 62);  // of 70
  EXPECT_EQ(rings_of(cluster, 0b00001111), 4);
  EXPECT_EQ(rings_of(cluster, 0b00110011), 0);
  EXPECT_EQ(rings_of(cluster, 0b11111111), 6);
  EXPECT_EQ(rings_of(cluster_of(GpuType::kA100, 1), 0b00110011), 12);
}

TEST(CollectiveSamples, NoShapeIsInTwoPartsAndNoiseHasTheStatedSize) {
  const CollectiveSamples all = sample_collectives(3);
  EXPECT_GE(all.samples.size(), 5000u);
  std::map<PlacementShape, Part> parts;
  std::map<Part, int> shapes;
  for (const SampledPlacement& p : all.placements) {
    EXPECT_EQ(shape_of(p.graph), p.shape);
    const auto [at, is_new] = parts.emplace(p.shape, p.part);
    EXPECT_EQ(at->second, p.part);
    shapes[p.part] += is_new;
  }
  EXPECT_NEAR(shapes[Part::kTest], static_cast<double>(parts.size()) / 5, 1);
  EXPECT_NEAR(shapes[Part::kValidate], static_cast<double>(parts.size()) / 5, 1);
  double sum[2] = {}, squares[2] = {}, count[2] = {};
  for (const AllReduceSample& s : all.samples) {
    const int between = all.placements[s.placement].shape.servers > 1 ? 1 : 0;
    const double off = std::log(s.seconds / s.exact_seconds);
    sum[between] += off;
    squares[between] += off * off;
    ++count[between];
  }
  for (const int between : {0, 1}) {
    const double noise = between == 0 ? 0.05 : 0.15;
    EXPECT_NEAR(sum[between] / count[between], 0, noise / 10);
    EXPECT_NEAR(std::sqrt(squares[between] / count[between]), noise, noise / 10);
  }
}

}  // namespace
}  // namespace sluice::learn
