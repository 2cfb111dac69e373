// Listings of a cluster in memory.
#include "control/api/listings.h"

#include <gtest/gtest.h>

#include "control/api/metrics.h"
#include "control/local/store.h"
#include "predict/profile_table.h"
#include "tests/support/fake_cluster.h"
#include "tests/support/folder.h"

namespace sluice::control {
namespace {

struct ListingsTest : testing::Test {
  const TemporaryFolder folder;
  ManualClock clock;
  FakeCluster cluster{clock};
  Store store = std::move(*Store::open(folder.path + "/control.db"));
  predict::ProfileTable predictor;
  const std::unique_ptr<Control> control =
      std::move(*Control::open({store, store, cluster, predictor, clock}, {.bundle = "fixed"}));
};

TEST_F(ListingsTest, WhatEndedLeavesTheListAfterAMinute) {
  constexpr UnixMillis kEnded = 1'000'000;
  cluster.seen.instances.push_back({.instance = {.id = "batch", .state = InstanceState::kGone},
                                    .foreign = true,
                                    .used = Millis(120),
                                    .ended = kEnded});
  control->step(kEnded);
  const auto listed = instance_rows(*control, kEnded + 60'000);
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0]["used_ms"], 120);
  EXPECT_TRUE(instance_rows(*control, kEnded + 60'001).empty());
}

TEST_F(ListingsTest, EachPartCountsOnItsDevice) {
  const Slice third{.sm = kWhole, .quota = {{300}, kWhole}, .memory = 7};
  cluster.devices = {{.id = "cpu0"}, {.id = "cpu1"}, {.id = "cpu2"}};
  cluster.seen.instances.push_back(
      {.instance = {.id = "pair",
                    .state = InstanceState::kReady,
                    .parts = {{"cpu0", third, {}}, {"cpu2", third, {}}}},
       .foreign = true});
  control->step(1'000'000);
  const auto rows = device_rows(*control, 1'000'000);
  ASSERT_EQ(rows.size(), 3u);
  for (const auto& row : rows) {
    const int parts = row["id"] == "cpu1" ? 0 : 1;
    EXPECT_EQ(row["instances"], parts) << row;
    EXPECT_EQ(row["reserved"], 300 * parts) << row;
    EXPECT_EQ(row["memory_reserved"], 7 * parts) << row;
  }
  const std::string text = metrics(*control);
  const auto says = [&](const std::string& line) { return text.find(line) != text.npos; };
  EXPECT_TRUE(says("sluice_device_reserved_ratio{device=\"cpu2\"} 0.3")) << text;
  EXPECT_TRUE(says("instance=\"pair\",device=\"cpu2\"} 0.3")) << text;
}

}  // namespace
}  // namespace sluice::control
