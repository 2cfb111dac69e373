#include "learn/interconnect.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::learn {
namespace {

using Kind = Interconnect::Kind;

// Two servers of four GPUs, under two switches with one above: 0 to 3 and 4 to 7; CPUs 8 to 11,
// each of two GPUs; switches 12 and 13, and 14. NVLinks: a ring of double links in each server.
Interconnect two_servers() {
  Interconnect g;
  for (int i = 0; i < 8; ++i)
    g.nodes.push_back({.parent = 8 + i / 2, .server = i / 4, .nvlink_ports = 4});
  for (int i = 0; i < 4; ++i)
    g.nodes.push_back({.kind = Kind::kCpu, .parent = 12 + i / 2, .server = i / 2});
  for (int i = 0; i < 2; ++i) g.nodes.push_back({.kind = Kind::kSwitch, .parent = 14});
  g.nodes.push_back({.kind = Kind::kSwitch});
  for (int i = 0; i < 8; ++i) {
    g.edges.push_back({i, 8 + i / 2, 12});
    g.edges.push_back({i, i / 4 * 4 + (i + 1) % 4, 40, 2});
  }
  for (int i = 0; i < 4; ++i) g.edges.push_back({8 + i, 12 + i / 2, 9});
  for (int i = 0; i < 2; ++i) {
    g.edges.push_back({8 + 2 * i, 9 + 2 * i, 10});
    g.edges.push_back({12 + i, 14, 5});
  }
  return g;
}

Interconnect of(const std::vector<int>& gpus) {
  return subgraph(two_servers(), gpus);
}

TEST(Interconnect, ASubgraphEndsAtTheFirstSwitchAboveAll) {
  const Interconnect one = of({1, 0});
  EXPECT_EQ(one.nodes.size(), 4u);  // two GPUs, their CPU and its switch
  EXPECT_EQ(one.edges.size(), 4u);
  EXPECT_EQ(one.nodes[0].parent, 2);
  EXPECT_EQ(one.nodes[2].parent, 3);
  EXPECT_EQ(one.nodes[3].parent, -1);
  EXPECT_EQ(of({0, 2}).nodes.size(), 5u);
  const Interconnect both = of({0, 1, 4, 5});
  EXPECT_EQ(both.nodes.size(), 9u);
  EXPECT_EQ(both.nodes.back().kind, Kind::kSwitch);
  EXPECT_EQ(largest_gb_per_second(two_servers()), 40);
}

TEST(Interconnect, AShapeCountsWhatNcclDecidesBy) {
  EXPECT_EQ(shape_of(of({0, 1})), (PlacementShape{2, 1, 1, 2}));
  EXPECT_EQ(shape_of(of({0, 2})), (PlacementShape{2, 1, 1, 0}));
  EXPECT_EQ(shape_of(of({0, 1, 2, 3})), (PlacementShape{4, 1, 1, 4}));
  EXPECT_EQ(shape_of(of({0, 4})), (PlacementShape{2, 2, 2, 0}));
  EXPECT_EQ(shape_of(of({0, 1, 2, 3, 4, 5})), (PlacementShape{6, 2, 2, 2}));
  EXPECT_EQ(shape_of(of({0, 1, 2, 3, 4, 6})), (PlacementShape{6, 2, 2, 0}));
}

TEST(Interconnect, ARingIsAsFastAsItsSlowestPart) {
  EXPECT_EQ(least_gb_per_second(of({0, 1, 2, 3})), 80);
  EXPECT_EQ(least_gb_per_second(of({0, 1})), 40);
  EXPECT_EQ(least_gb_per_second(of({0, 2})), 10);  // between the sockets
  EXPECT_EQ(least_gb_per_second(of({0, 1, 4, 5})), 5);
  EXPECT_EQ(server_gb_per_second(of({0, 1, 4, 5}), 1), 40);
  EXPECT_EQ(server_gb_per_second(of({0, 4}), 0), 12);
}

TEST(Interconnect, RingsTakeNoMorePortsThanThereAre) {
  Interconnect g;
  for (int i = 0; i < 8; ++i) g.nodes.push_back({.server = 0, .nvlink_ports = 12});
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < i; ++j) g.edges.push_back({i, j, 240, 12});
  EXPECT_EQ(nvlink_rings(g, 0), 12);
}

}  // namespace
}  // namespace sluice::learn
