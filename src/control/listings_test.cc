// What listings show of a cluster in memory.
#include "control/listings.h"

#include <gtest/gtest.h>

#include "base/folder_for_test.h"
#include "control/cluster_fake.h"

namespace sluice::control {
namespace {

TEST(Listings, WhatEndedLeavesTheListAfterAMinute) {
  const FolderForTest folder;
  ManualClock clock;
  FakeCluster cluster(clock);
  Store store = std::move(*Store::open(folder.path + "/control.db"));
  const auto control = std::move(*Control::open(store, cluster, clock, {.bundle = "fixed"}));
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

}  // namespace
}  // namespace sluice::control
