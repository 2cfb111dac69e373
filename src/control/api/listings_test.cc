// Listings of a cluster in memory.
#include "control/api/listings.h"

#include <gtest/gtest.h>

#include <set>

#include "control/api/history.h"
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

// A reader of it may not thereby call the function.
TEST_F(ListingsTest, TheHistoryHasArrivalsByTheMinuteAndNoToken) {
  FunctionSpec spec{.name = {"default", "f"}};
  spec.inference().model = {.path = "/m.pt"};
  spec.inference().token = "secret";
  ASSERT_TRUE(store.add_revision({spec.name, 1, spec, 0}, 1).ok());
  ASSERT_TRUE(store.save_profile({.model = "/m.pt", .device = {"gpu"}}).ok());
  ArrivalHistory::Hour minutes{};
  minutes[59] = 60;
  JournalEntry entry{.arrivals = {{spec.name, 10, minutes}}};
  ASSERT_TRUE(store.write(entry).ok());
  const auto next =
      std::move(*Control::open({store, store, cluster, predictor, clock}, {.bundle = "fixed"}));
  const auto all = history(*next);
  ASSERT_EQ(all["functions"].size(), 1u);
  const auto& f = all["functions"][0];
  EXPECT_EQ(f["specification"]["name"], "default/f") << f;
  EXPECT_EQ(f["arrivals"][0]["hour"], 10);
  EXPECT_EQ(f["arrivals"][0]["minutes"][59], 60);
  EXPECT_EQ(all["profiles"].size(), 1u);
  EXPECT_EQ(all.dump().find("secret"), std::string::npos) << all;
}

// What a busy cluster has recorded would be hundreds of megabytes in one answer.
TEST_F(ListingsTest, TheHistoryComesInPages) {
  constexpr int kFunctions = 25;
  ArrivalHistory::Hour minutes{};
  minutes.fill(1000);
  for (int n = 0; n < kFunctions; ++n) {
    FunctionSpec spec{.name = {"default", "f" + std::to_string(n)}};
    spec.inference().model = {.path = "/m.pt"};
    ASSERT_TRUE(store.add_revision({spec.name, 1, spec, 0}, 1).ok());
    JournalEntry entry;
    for (int hour = 1; hour <= ArrivalHistory::kHours; ++hour)
      entry.arrivals.push_back({spec.name, hour, minutes});
    ASSERT_TRUE(store.write(entry).ok());
  }
  ASSERT_TRUE(store.save_profile({.model = "/m.pt", .device = {"gpu"}}).ok());
  const auto next =
      std::move(*Control::open({store, store, cluster, predictor, clock}, {.bundle = "fixed"}));
  std::set<std::string> seen;
  std::string after;
  int pages = 0;
  do {
    const auto page = history(*next, after);
    EXPECT_LT(page.dump().size(), size_t{2} << 20);
    for (const auto& f : page["functions"]) {
      EXPECT_TRUE(seen.insert(f["specification"]["name"]).second) << f;
      EXPECT_EQ(f["arrivals"].size(), size_t{ArrivalHistory::kHours});
    }
    after = page.value("next", "");
    EXPECT_EQ(page.contains("profiles"), after.empty());
    ++pages;
  } while (!after.empty());
  EXPECT_EQ(seen.size(), size_t{kFunctions});
  EXPECT_EQ(pages, 3);
  EXPECT_TRUE(history(*next, "z/z")["functions"].empty()) << "of functions that have gone";
}

}  // namespace
}  // namespace sluice::control
