// Stores of earlier versions: tests/corpus/store has the dump of one of each schema. The platforms
// did the same: they applied f, whose revision 2 is a canary, and vision/g, measured their model
// and served 25 requests. The store of schema 3 is that of schema 2, taken there.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "control/local/store.h"
#include "tests/support/folder.h"

namespace sluice::control {
namespace {

void write_database(const std::string& path, const std::string& dump) {
  std::ifstream file(dump);
  const std::string sql((std::istreambuf_iterator<char>(file)), {});
  ASSERT_FALSE(sql.empty()) << dump;
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(db);
  sqlite3_close(db);
}

class StoreOfSchema : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const std::string dump =
        std::string(SLUICE_STORES) + "/schema" + std::to_string(GetParam()) + ".sql";
    ASSERT_NO_FATAL_FAILURE(write_database(path, dump));
  }
  const TemporaryFolder folder;
  const std::string path = folder.path + "/control.db";
  const FunctionName f{.name = "f"}, g{.space = "vision", .name = "g"};
};

TEST_P(StoreOfSchema, KeepsFunctionsAndRevisions) {
  Store store = std::move(*Store::open(path));
  const auto functions = *store.functions();
  ASSERT_EQ(functions.size(), 2u);
  EXPECT_EQ(functions[0].name, f);
  EXPECT_EQ(functions[0].newest, 2);
  EXPECT_EQ(functions[0].serving, 1) << "revision 2 is a canary";
  EXPECT_EQ(functions[0].served, ServingHistory{kNotKnown});
  EXPECT_TRUE(functions[0].complete);
  ASSERT_EQ(functions[0].revisions.size(), 2u);

  const FunctionSpec& first = functions[0].revisions[0].spec;
  const ModelSpec& model = first.inference().model;
  EXPECT_EQ(model.path, "/models/m.pt");
  EXPECT_EQ(model.content.size(), 64u);
  FunctionSpec f1{.name = f,
                  .policy = "fixed",
                  .slice = Slice{.sm = kWhole, .quota = {{300}, {300}}},
                  .kind = InferenceSpec{.model = model, .min_replicas = 2}};
  EXPECT_EQ(first, f1);
  f1.priority = 3;
  f1.inference().slo = {.latency = Millis(250), .percentile = 99};
  f1.inference().batching = {.max_size = 4, .max_delay = Millis(2)};
  f1.inference().canary_traffic_percent = 10;
  f1.inference().token = "secret";
  EXPECT_EQ(functions[0].revisions[1].spec, f1);

  EXPECT_EQ(functions[1].name, g);
  ASSERT_EQ(functions[1].revisions.size(), 1u);
  const FunctionSpec g1{
      .name = g, .policy = "has-gpu", .kind = InferenceSpec{.model = model, .min_replicas = 1}};
  EXPECT_EQ(functions[1].revisions[0].spec, g1);
}

TEST_P(StoreOfSchema, KeepsTheProfile) {
  Store store = std::move(*Store::open(path));
  const ModelSpec model = store.functions()->at(1).revisions.at(0).spec.inference().model;
  const Profiles profiles = *store.profiles();
  const Profile* profile = profiles.find(model, {"cpu/800m"});
  ASSERT_NE(profile, nullptr);
  EXPECT_GT(profile->memory, 0);
  ASSERT_EQ(profile->points.size(), 1u);
  EXPECT_EQ(profile->points[0].at, (Configuration{1, kWhole, {400}}));
  EXPECT_GT(profile->points[0].throughput, 0);
}

TEST_P(StoreOfSchema, KeepsDecisionsAndNumbersNewOnesAfterThem) {
  Store store = std::move(*Store::open(path));
  const auto decisions = *store.decisions(std::nullopt, 100);
  std::vector<std::string> actions;
  for (const Decision& d : decisions) actions.push_back(d.action);
  std::ranges::reverse(actions);
  EXPECT_EQ(actions, (std::vector<std::string>{"apply", "start", "start", "apply", "start", "start",
                                               "apply", "start", "resize"}));
  ASSERT_EQ(decisions.size(), 9u);
  EXPECT_EQ(decisions[0].reason.rule, "vertical-down");
  EXPECT_EQ(decisions[0].reason.numbers.size(), 3u);
  EXPECT_EQ(decisions[8].reason.text, "Revision 1 was applied.");
  JournalEntry entry{.decisions = {{.at = 5, .function = f, .action = "stop"}}};
  ASSERT_TRUE(store.write(entry).ok());
  EXPECT_EQ(entry.decisions[0].number, 10);
}

TEST_P(StoreOfSchema, KeepsAccountsRatesAndInstances) {
  Store store = std::move(*Store::open(path));
  const Accounts accounts = *store.accounts();
  EXPECT_EQ(accounts.at("default/f")["starts"], 4);
  EXPECT_EQ(accounts.at("vision/g traffic")["seen"]["inferences"], 25);
  EXPECT_EQ(store.rates(g, 0)->size(), 6u);
  EXPECT_EQ(store.arrivals(g)->size(), GetParam() < 3 ? 0u : 1u);
  const auto instances = *store.instances();
  ASSERT_EQ(instances.size(), 5u);
  EXPECT_EQ(instances[0].instance.function, f);
  EXPECT_EQ(instances[0].instance.first().slice.quota.request.permille, 300);
}

INSTANTIATE_TEST_SUITE_P(Written, StoreOfSchema, testing::Values(1, 2, 3));

}  // namespace
}  // namespace sluice::control
